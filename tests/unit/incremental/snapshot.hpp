// All that a graph is made of, for "exactly as before".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>

#include "incremental/core.hpp"

namespace cambium::incremental {

// Every field of every record, values by identity, and the counters.
inline std::string snapshot(const Core& core) {
  std::string text;
  for (std::int32_t node = 0; node < core.size(); ++node) {
    const Record& r = core.record(node);
    text += fmt::format(
        "{} {} {} {}{}{} obs {} h {} rec {} chg {} heap {} scope {} partner {} {} c[{}] p[{}] "
        "s[{}] v{} p{}\n",
        node,
        static_cast<int>(r.kind),
        r.generation,
        r.alive,
        r.valid,
        r.necessary,
        r.observers,
        r.height,
        r.recomputed_at,
        r.changed_at,
        r.heap_position,
        r.scope,
        r.partner,
        r.label,
        fmt::join(r.children, " "),
        fmt::join(r.parents, " "),
        fmt::join(r.scope_nodes, " "),
        r.value.get(),
        r.pending.get());
  }
  const Counters& c = core.counters();
  return text + fmt::format("{} {} {} {} {} {} {} at {}",
                            c.nodes,
                            c.necessary,
                            c.recomputed,
                            c.changed,
                            c.cut_off,
                            c.invalidated,
                            c.created,
                            core.stabilization());
}

}  // namespace cambium::incremental
