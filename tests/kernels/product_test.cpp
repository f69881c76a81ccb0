// tests/kernels/product_test.cpp — products by hand, strided, at the edge of memory; refusals.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>
#include <xmmintrin.h>

#include "kernels/cpu/isa.hpp"
#include "support/bits.hpp"
#include "tests/kernels/product_cases.hpp"

namespace cambium::kernels::testing {
namespace {

using cpu::Isa;
using device::Backend;
using device::DType;
using device::view_of;

struct Case {
  Backend backend;
  Isa isa;
  int threads;
};

std::vector<Case> cases() {
  std::vector<Case> all = {{Backend::reference, Isa::automatic, 1},
                           {Backend::reference, Isa::automatic, 2}};
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (cpu::is_supported(isa)) {
      all.push_back({Backend::cpu, isa, 1});
      all.push_back({Backend::cpu, isa, 2});
    }
  }
  return all;
}

std::string name_of_case(const ::testing::TestParamInfo<Case>& info) {
  return std::string(device::name_of(info.param.backend)) + "_" + cpu::name_of(info.param.isa) +
         "_" + std::to_string(info.param.threads);
}

// A backend with its ISA and threads.
class Product : public ::testing::TestWithParam<Case> {
 protected:
  Product() : stream(GetParam().backend, GetParam().threads) {
    cpu::select_isa(GetParam().isa);
  }

  void TearDown() override {
    cpu::select_isa(Isa::automatic);
  }

  Stream stream;
};

INSTANTIATE_TEST_SUITE_P(Backends, Product, ::testing::ValuesIn(cases()), name_of_case);

Matrix matrix_of(dim_t rows, dim_t cols, std::vector<float> values) {
  Matrix m(rows, cols);
  m.values = std::move(values);
  return m;
}

TEST_P(Product, MatchesTheHandComputedCase) {
  Matrix x = matrix_of(2, 3, {1, 2, 3, -4, 5, 6});
  Packed w(stream, matrix_of(2, 3, {7, 8, 9, 10, -11, 12}));
  Matrix y(2, 2);
  Matrix dx(2, 3);
  Matrix dw(2, 3);
  Matrix dy = matrix_of(2, 2, {1, 2, -3, 4});

  product_forward(stream, {.x = x.view(), .w = w.weight(), .y = y.view()});
  product_backward_input(stream, {.dy = dy.view(), .w = w.weight(), .dx = dx.view()});
  product_backward_weight(stream, {.dy = dy.view(), .x = x.view(), .dw = dw.view()});

  EXPECT_BITS_EQ(y.values, (std::vector<float>{50, 24, 66, -23}));
  EXPECT_BITS_EQ(dx.values, (std::vector<float>{27, -14, 33, 19, -68, 21}));
  EXPECT_BITS_EQ(dw.values, (std::vector<float>{13, -13, -15, -14, 24, 30}));
  EXPECT_EQ(stream.counters().product_flops, 3 * 2 * 2 * 2 * 3);
}

TEST_P(Product, AddsTheResidualAndContinuesChains) {
  Matrix x = matrix_of(1, 2, {1, 2});
  Packed w(stream, matrix_of(2, 2, {3, 4, 5, 6}));
  Matrix residual = matrix_of(1, 2, {100, 200});
  Matrix y(1, 2);
  Matrix dy = matrix_of(1, 2, {1, 1});
  Matrix dx = matrix_of(1, 2, {10, 20});
  Matrix dw = matrix_of(2, 2, {1, 1, 1, 1});

  product_forward(stream,
                  {.x = x.view(), .w = w.weight(), .y = y.view(), .residual = residual.view()});
  EXPECT_BITS_EQ(y.values, (std::vector<float>{111, 217}));

  product_forward(stream,
                  {.x = x.view(), .w = w.weight(), .y = y.view(), .accumulate = Accumulate::yes});
  EXPECT_BITS_EQ(y.values, (std::vector<float>{122, 234}));

  product_backward_input(
      stream, {.dy = dy.view(), .w = w.weight(), .dx = dx.view(), .accumulate = Accumulate::yes});
  EXPECT_BITS_EQ(dx.values, (std::vector<float>{18, 30}));

  product_backward_weight(
      stream, {.dy = dy.view(), .x = x.view(), .dw = dw.view(), .accumulate = Accumulate::yes});
  EXPECT_BITS_EQ(dw.values, (std::vector<float>{2, 3, 2, 3}));
}

TEST_P(Product, EmptySumGivesZeroOrTheResidual) {
  Matrix y = matrix_of(1, 2, {5, 6});
  Matrix residual = matrix_of(1, 2, {7, 8});
  const View none{nullptr, 1, 0, 0, DType::f32};
  const Weight w{
      {nullptr, 2, 0, 0, DType::f32}, view_of<float>(nullptr, 0), view_of<float>(nullptr, 0)};

  product_forward(stream, {.x = none, .w = w, .y = y.view(), .residual = residual.view()});
  EXPECT_BITS_EQ(y.values, (std::vector<float>{7, 8}));

  product_forward(stream, {.x = none, .w = w, .y = y.view()});
  EXPECT_BITS_EQ(y.values, (std::vector<float>{0, 0}));
}

// A matrix inside a larger one: everything around it must stay as it is.
class Inset {
 public:
  explicit Inset(const Matrix& m)
      : rows_(m.rows),
        cols_(m.cols),
        frame_(static_cast<std::size_t>((m.rows + 2) * stride()), kFrame) {
    for (dim_t r = 0; r < rows_; ++r) {
      for (dim_t c = 0; c < cols_; ++c) {
        frame_[index(r, c)] = m.at(r, c);
      }
    }
  }

  [[nodiscard]] View view() {
    return {frame_.data() + index(0, 0), rows_, cols_, stride(), DType::f32};
  }

  [[nodiscard]] Matrix values() const {
    Matrix m(rows_, cols_);
    for (dim_t r = 0; r < rows_; ++r) {
      for (dim_t c = 0; c < cols_; ++c) {
        m.at(r, c) = frame_[index(r, c)];
      }
    }
    return m;
  }

  [[nodiscard]] bool is_frame_intact() {
    for (dim_t r = 0; r < rows_; ++r) {
      for (dim_t c = 0; c < cols_; ++c) {
        frame_[index(r, c)] = kFrame;
      }
    }
    return std::all_of(frame_.begin(), frame_.end(), [](float v) { return v == kFrame; });
  }

 private:
  static constexpr float kFrame = 1e30F;

  [[nodiscard]] dim_t stride() const {
    return cols_ + 21;
  }

  [[nodiscard]] std::size_t index(dim_t r, dim_t c) const {
    return static_cast<std::size_t>((r + 1) * stride() + 10 + c);
  }

  dim_t rows_;
  dim_t cols_;
  std::vector<float> frame_;
};

TEST_P(Product, HonoursStridesAndLeavesTheRestAlone) {
  const Matrix left = some_matrix(61, 301, 1);
  const Matrix right = some_matrix(107, 301, 2);
  const Matrix expected = chain(left, right);

  Inset x(left);
  Inset plain(right);
  Packed packed(stream, right);
  Weight w = packed.weight();
  w.plain = plain.view();
  pack_weight(stream, w);
  Inset y(Matrix(61, 107));
  product_forward(stream, {.x = x.view(), .w = w, .y = y.view()});
  EXPECT_BITS_EQ(y.values().values, expected.values);
  EXPECT_TRUE(y.is_frame_intact());

  Inset plain_t(right.transposed());
  Packed packed_t(stream, right.transposed());
  Weight w_t = packed_t.weight();
  w_t.plain = plain_t.view();
  pack_weight(stream, w_t);
  Inset dx(Matrix(61, 107));
  product_backward_input(stream, {.dy = x.view(), .w = w_t, .dx = dx.view()});
  EXPECT_BITS_EQ(dx.values().values, expected.values);
  EXPECT_TRUE(dx.is_frame_intact());

  Inset dy(left.transposed());
  Inset x_t(right.transposed());
  Inset dw(Matrix(61, 107));
  product_backward_weight(stream, {.dy = dy.view(), .x = x_t.view(), .dw = dw.view()});
  EXPECT_BITS_EQ(dw.values().values, expected.values);
  EXPECT_TRUE(dw.is_frame_intact());
}

// Memory whose last (or first) element touches a page that may not be read.
class AtTheEdge {
 public:
  AtTheEdge(const Matrix& m, bool at_end) : rows_(m.rows), cols_(m.cols) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t bytes = m.values.size() * sizeof(float);
    inner_ = (bytes + page - 1) / page * page;
    total_ = inner_ + 2 * page;
    base_ =
        static_cast<char*>(mmap(nullptr, total_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED || mprotect(base_ + page, inner_, PROT_READ | PROT_WRITE) != 0) {
      throw Error(Code::device, "test: mmap refused");
    }
    data_ = reinterpret_cast<float*>(base_ + page + (at_end ? inner_ - bytes : 0));
    std::copy(m.values.begin(), m.values.end(), data_);
  }

  ~AtTheEdge() {
    munmap(base_, total_);
  }

  AtTheEdge(const AtTheEdge&) = delete;
  AtTheEdge& operator=(const AtTheEdge&) = delete;

  [[nodiscard]] View view() const {
    return view_of(data_, rows_, cols_);
  }

  [[nodiscard]] std::vector<float> values() const {
    return {data_, data_ + rows_ * cols_};
  }

 private:
  dim_t rows_;
  dim_t cols_;
  std::size_t inner_ = 0;
  std::size_t total_ = 0;
  char* base_ = nullptr;
  float* data_ = nullptr;
};

TEST_P(Product, NeverTouchesMemoryBesideItsViews) {
  for (const bool at_end : {true, false}) {
    const Matrix left = some_matrix(13, 35, 1);
    const Matrix right = some_matrix(69, 35, 2);
    const Matrix expected = chain(left, right);
    const AtTheEdge x(left, at_end);
    const AtTheEdge y(Matrix(13, 69), at_end);
    const AtTheEdge plain(right, at_end);
    const AtTheEdge forward(Matrix(1, packed_elements(69, 35)), at_end);
    const AtTheEdge transposed(Matrix(1, packed_elements(35, 69)), at_end);
    const Weight w{plain.view(), forward.view(), transposed.view()};
    pack_weight(stream, w);
    product_forward(stream, {.x = x.view(), .w = w, .y = y.view(), .residual = y.view()});
    EXPECT_BITS_EQ(y.values(), expected.values);

    const AtTheEdge dx(Matrix(13, 35), at_end);
    product_backward_input(stream, {.dy = y.view(), .w = w, .dx = dx.view()});
    EXPECT_BITS_EQ(dx.values(), chain(expected, right.transposed()).values);

    const AtTheEdge dw(Matrix(69, 35), at_end);
    product_backward_weight(stream, {.dy = y.view(), .x = x.view(), .dw = dw.view()});
    EXPECT_BITS_EQ(dw.values(), chain(expected.transposed(), left.transposed()).values);
  }
}

TEST_P(Product, KeepsDenormalsWhateverTheCallerSet) {
  constexpr unsigned kFlushAndZero = 0x8040;
  const Matrix left = tiny_matrix(5, 40, 1);
  const Matrix right = tiny_matrix(50, 40, 2);
  const Matrix expected = chain(left, right);
  ASSERT_TRUE(std::any_of(expected.values.begin(), expected.values.end(), [](float v) {
    return v != 0 && std::fabs(v) < std::numeric_limits<float>::min();
  }));

  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | kFlushAndZero);
  const Matrix y = forward_product(stream, left, right);
  _mm_setcsr(before);

  EXPECT_BITS_EQ(y.values, expected.values);
}

// An infinite input must not leak into columns of its panel that it does not belong to.
TEST_P(Product, KeepsInfinitiesInTheirRowAndColumn) {
  Matrix left = some_matrix(11, 20, 1);
  Matrix right = some_matrix(50, 20, 2);
  left.at(3, 7) = std::numeric_limits<float>::infinity();
  right.at(49, 7) = 2;

  const Matrix y = forward_product(stream, left, right);

  EXPECT_EQ(y.at(3, 49), std::numeric_limits<float>::infinity());
  for (dim_t i = 0; i < y.rows; ++i) {
    if (i != 3) {
      EXPECT_TRUE(std::isfinite(y.at(i, 49))) << i;
    }
  }
}

TEST_P(Product, RefusesShapesThatDisagree) {
  Matrix x(2, 3);
  Matrix y(2, 4);
  Packed w(stream, Matrix(5, 3));
  const auto code_of = [](auto&& call) {
    try {
      call();
    } catch (const Error& e) {
      return e.code();
    }
    return Code::usage;
  };

  EXPECT_EQ(
      code_of([&] { product_forward(stream, {.x = x.view(), .w = w.weight(), .y = y.view()}); }),
      Code::bug);
  EXPECT_EQ(code_of([&] {
              product_backward_input(stream, {.dy = y.view(), .w = w.weight(), .dx = x.view()});
            }),
            Code::bug);
  EXPECT_EQ(code_of([&] {
              product_backward_weight(stream, {.dy = x.view(), .x = y.view(), .dw = y.view()});
            }),
            Code::bug);
}

TEST(ProductReference, WorksInF64) {
  Stream stream(Backend::reference, 1);
  std::vector<double> x = {1, 1e-17, 3};
  std::vector<double> w = {1, 1, 1e300, 2, 0, -1};
  std::vector<double> y(2);
  const Weight weight{view_of(w.data(), 2, 3), {}, {}};

  product_forward(stream,
                  {.x = view_of(x.data(), 1, 3), .w = weight, .y = view_of(y.data(), 1, 2)});

  EXPECT_BITS_EQ(y, (std::vector<double>{std::fma(3, 1e300, 1.0), -1}));
}

TEST(ProductReference, IsTheOnlyBackendForF64) {
  Stream stream(Backend::cpu, 1);
  std::vector<double> v(1);
  const View one = view_of(v.data(), 1, 1);

  EXPECT_THROW(product_forward(stream, {.x = one, .w = {one, {}, {}}, .y = one}), Error);
}

TEST(PackWeight, LaysPanelsOutAsTheHeaderSays) {
  const Matrix plain = some_matrix(50, 7, 1);
  Stream stream(Backend::cpu, 1);
  const Packed w(stream, plain);

  const auto at = [](const std::vector<float>& panels, dim_t column, dim_t s, dim_t sum) {
    return panels[static_cast<std::size_t>((column / kPanelWidth * sum + s) * kPanelWidth +
                                           column % kPanelWidth)];
  };
  for (dim_t n = 0; n < 96; ++n) {
    for (dim_t k = 0; k < 7; ++k) {
      EXPECT_BITS_EQ(at(w.forward(), n, k, 7), n < 50 ? plain.at(n, k) : 0.0F);
    }
  }
  for (dim_t k = 0; k < 48; ++k) {
    for (dim_t n = 0; n < 50; ++n) {
      EXPECT_BITS_EQ(at(w.transposed(), k, n, 50), k < 7 ? plain.at(n, k) : 0.0F);
    }
  }
}

TEST(Isa, ChoosesWhatTheMachineHasAndRefusesTheRest) {
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (cpu::is_supported(isa)) {
      cpu::select_isa(isa);
      EXPECT_EQ(cpu::active_isa(), isa);
    } else {
      EXPECT_THROW(cpu::select_isa(isa), Error);
    }
  }
  cpu::select_isa(Isa::automatic);
  EXPECT_EQ(cpu::active_isa(), cpu::is_supported(Isa::avx512) ? Isa::avx512 : Isa::avx2);
}

}  // namespace
}  // namespace cambium::kernels::testing
