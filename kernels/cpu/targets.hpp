// kernels/cpu/targets.hpp — include first in a Highway source: compiles it for AVX2 and AVX-512
// only. Highway's lower targets do not fuse MulAdd and would give other bits; a machine without
// AVX2 is refused by dispatch, so AVX2 may stand as the baseline that Highway insists on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#define HWY_BASELINE_TARGETS HWY_AVX2
