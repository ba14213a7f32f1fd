// B that lies in memory in units of two or four numbers along K (docs/inside/cpu/products.md): what else may happen to
// it.
#include "differential.h"
#include "kiln/codegen/compile.h"
#include "kiln/dsl/kernels.h"

namespace kiln::test {
namespace {

namespace lang = dsl::lang;
using dsl::ElementType;
using lang::Value;

constexpr int64_t kDepth = 64;

struct Extents {
  int64_t rows, columns;  // of the product
};

enum class Between : uint8_t { kNothing, kStore, kOtherUse };

// c = a·b, and behind b was made of its units, before the product: nothing, zeros stored over them, or their sum.
template <class T, class Sum>
void check_units(Between between, Extents extents) {
  constexpr int kUnit = kernels::packed_unit_v<T>;
  const auto def = lang::kernel(
      "units",
      {"a", "b", "c", "total", "M=" + std::to_string(extents.rows), "N=" + std::to_string(extents.columns), "K=64"},
      [between](lang::Ptr<const T> a, lang::Ptr<T> b, lang::Ptr<Sum> c, lang::Ptr<Sum> total, lang::Const M,
                lang::Const N, lang::Const K) {
        lang::grid(1);
        const lang::Tile units = lang::tile(b, {K / kUnit, N, kUnit});
        const Value block = units.load({0, 0, 0}, {K / kUnit, N, kUnit});
        const Value rows = lang::reshape(lang::permute(block, {0, 2, 1}), {K, N});
        if (between == Between::kStore) units.store({0, 0, 0}, lang::zeros(lang::element_v<T>, {K / kUnit, N, kUnit}));
        if (between == Between::kOtherUse) {
          const Value wide = lang::cast(lang::reshape(block, {K * N}), lang::element_v<Sum>);
          lang::store(total, lang::sum(wide, 0));
        }
        const Value product =
            lang::dot(lang::tile(a, {M, K}).load({0, 0}, {M, K}), rows, lang::zeros(lang::element_v<Sum>, {M, N}));
        lang::tile(c, {M, N}).store({0, 0}, product);
      });
  ASSERT_TRUE(def.ir().ok()) << def.ir().error().message;
  Trial run;
  run.arguments = {random_buffer(lang::element_v<T>, extents.rows * kDepth, 1, false),
                   random_buffer(lang::element_v<T>, kDepth * extents.columns, 2, false),
                   random_buffer(lang::element_v<Sum>, extents.rows * extents.columns, 3, false),
                   random_buffer(lang::element_v<Sum>, 1, 4, false)};
  run.match = {1e-3, 1e-4, true};
  run.targets = cpu_targets();
  const std::string native = codegen::native_target();
  if (native.find("+avx512bf16") != std::string::npos) {
    run.targets.push_back(native.substr(0, native.find(';')) + ";dot-bf16=vdpbf16ps");
  }
  expect_same(*def.ir(), "", run);
}

TEST(DotOfUnits, AreWhatTheLoadSaw) {
  for (const Between between : {Between::kNothing, Between::kStore, Between::kOtherUse}) {
    SCOPED_TRACE(static_cast<int>(between));
    check_units<lang::bf16, lang::f32>(between, {8, 64});
    check_units<lang::i8, lang::i32>(between, {8, 64});
  }
}

// Of one row, of a block of the micro-kernel, of several, and panels of as many vectors.
TEST(DotOfUnits, OfPanelsOfAnyWidth) {
  for (const int64_t columns : {16, 32, 48, 64, 80}) {
    for (const int64_t rows : {1, 8, 40}) {
      SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(columns) + " columns");
      check_units<lang::bf16, lang::f32>(Between::kNothing, {rows, columns});
      check_units<lang::i8, lang::i32>(Between::kNothing, {rows, columns});
    }
  }
}

// Whoever keeps what was measured may hand it back, and nothing else.
TEST(DotOfUnits, OnlyWhatCouldBeMeasuredIsBelieved) {
  const std::string measured = codegen::measured_dot_units();
  EXPECT_TRUE(codegen::may_be_measured(measured)) << measured;
  EXPECT_EQ(codegen::native_target().find(codegen::native_processor()), 0u);
  if (!codegen::may_measure_units()) {
    EXPECT_EQ(measured, "");
  }
  for (const char* other : {";", ";dot-bf16", ";dot-bf16=", ";dot-bf16=fast", ";dot-i8=vnni;dot-bf16=widen",
                            "dot-i8=widen", ";dot-bf16=widen;dot-bf16=widen", ";dot-i8=widen ", ";dot-i8=widen\n"}) {
    EXPECT_FALSE(codegen::may_be_measured(other)) << other;
  }
  const bool has_tiles = codegen::native_processor().find("+amx-bf16") != std::string::npos;
  if (!has_tiles) {
    EXPECT_FALSE(codegen::may_be_measured(";dot-bf16=amx"));
  }
}

std::string assembly_of_packed(int64_t rows, const char* target) {
  const auto& kernel = kernels::matmul_packed<lang::bf16>();
  auto artifact = compile(*kernel.ir(), {{"BM", rows}, {"BN", 32}, {"BK", 64}}, {}, target, "asm");
  EXPECT_TRUE(artifact.ok()) << artifact.error().message;
  if (!artifact) return {};
  return {reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size()};
}

// Of rows too few for AMX by pairs; where bf16 is to be widened it is.
TEST(DotOfUnits, OfFewRowsAreNotTakenApart) {
  EXPECT_NE(assembly_of_packed(1, "cpu:sapphirerapids").find("vdpbf16ps"), std::string::npos);
  EXPECT_EQ(assembly_of_packed(1, "cpu:sapphirerapids;dot-bf16=widen").find("vdpbf16ps"), std::string::npos);
  EXPECT_NE(assembly_of_packed(8, "cpu:sapphirerapids").find("tdpbf16ps"), std::string::npos);
  EXPECT_EQ(assembly_of_packed(8, "cpu:znver4").find("vdpbf16ps"), std::string::npos);
}

}  // namespace
}  // namespace kiln::test
