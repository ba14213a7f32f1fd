// How a dot of given types is computed on a target, and by which blocks.
#include "cpu/dot/dot_form.h"

#include "cpu/dot/dot_plan.h"

namespace kiln::codegen::cpu {
namespace {

// Fewer rows than this leave a tile unit idle most of its time.
constexpr int64_t kFewRowsForTiles = 8;
constexpr int kUnitsOfTile = 16;  // along K

// Units of `group` numbers for AArch64's instructions. A block of a single row would be half of it for nothing.
DotForm arm_form(DotForm form, ElementType packed, int group, bool blocks, int64_t m) {
  form.packed = packed;
  form.group = form.k_multiple = group;
  form.step = group == 2 ? Step::kBf16Pairs : Step::kQuads;
  if (!blocks || m == 1) return form;
  form.step = Step::kBlocks;
  form.k_multiple = 2 * group;
  return form;
}

DotForm bytes_form(const CpuTarget& target, DotForm form, int64_t m) {
  form.sum = ElementType::kI32;
  if (!target.is_x86) {
    const bool has_signs = form.a == form.b || target.has_i8mm;  // usdot and usmmla are of I8MM both
    if (target.dots.bytes != DotUnit::kWiden && has_signs) {
      return arm_form(form, ElementType::kI8, 4, target.dots.bytes == DotUnit::kTile, m);
    }
    form.packed = ElementType::kI32;
    return form;
  }
  const bool tiles = target.dots.bytes == DotUnit::kTile && m >= kFewRowsForTiles;
  if (tiles || (target.dots.bytes != DotUnit::kWiden && target.has_vnni)) {
    form.packed = ElementType::kI8;
    form.group = 4;
    form.step = tiles ? Step::kTiles : Step::kQuads;
    form.k_multiple = tiles ? 64 : 4;
    // vpdpbusd wants one operand of each sign. Where both have the same, A is moved by 128, or others take them.
    form.flip_a = !tiles && form.a == form.b && !target.has_vnni_signs;
    form.b_unsigned = form.b == ElementType::kU8;
  } else {
    // Products of bytes, two of them summed, fit an i32 whatever the signs.
    form.packed = ElementType::kI16;
    form.group = form.k_multiple = 2;
    form.step = Step::kPairs;
  }
  return form;
}

}  // namespace

namespace {

// Tiles of what is neither bf16 nor bytes: f8 of two kinds, f16, and f32 that may lose all but ten bits.
std::optional<DotForm> form_of_newer_tiles(const CpuTarget& target, DotForm form, bool tf32) {
  form.step = Step::kTiles;
  if (dsl::info(form.a).bits == 8 && target.has_tiles_of_f8) {
    form.packed = ElementType::kI8;
    form.group = 4;
  } else if (form.a == ElementType::kF16 && target.has_tiles_of_f16) {
    form.packed = ElementType::kF16;
    form.group = 2;
  } else if (form.a == ElementType::kF32 && tf32 && target.has_tiles_of_tf32) {
    form.round_tf32 = false;  // the unit does
  } else {
    return std::nullopt;
  }
  form.k_multiple = kUnitsOfTile * form.group;
  return form;
}

}  // namespace

DotForm choose_form(const CpuTarget& target, ElementType a, ElementType b, ElementType acc, bool tf32, int64_t m) {
  DotForm form;
  form.a = a;
  form.b = b;
  form.acc = form.sum = form.packed = acc;
  form.round_tf32 = tf32;
  if (!dsl::is_float(a)) return bytes_form(target, form, m);
  // Numbers of f8 are exact in bf16.
  const bool fits_bf16 = a == ElementType::kBF16 || dsl::info(a).bits == 8;
  if (!target.is_x86) {
    if (!fits_bf16 || target.dots.bf16 == DotUnit::kWiden) return form;
    return arm_form(form, ElementType::kBF16, 2, target.dots.bf16 == DotUnit::kTile, m);
  }
  const bool tiles = target.dots.bf16 == DotUnit::kTile && m >= kFewRowsForTiles;
  if (tiles) {
    if (const auto newer = form_of_newer_tiles(target, form, tf32)) return *newer;
  }
  if (fits_bf16 && (tiles || target.dots.bf16 == DotUnit::kInstruction)) {
    form.packed = ElementType::kBF16;
    form.group = 2;
    form.step = tiles ? Step::kTiles : Step::kBf16Pairs;
    form.k_multiple = tiles ? 32 : 2;
  }
  return form;
}

std::optional<DotForm> form_for_pairs(const CpuTarget& target, DotForm form, int64_t m) {
  const bool widened = form.step == Step::kFma && form.a == ElementType::kBF16 && form.b == ElementType::kBF16;
  const bool tiles_otherwise = target.dots.bf16 == DotUnit::kTile && m < kFewRowsForTiles;
  if (!widened || !tiles_otherwise || !target.has_bf16_pairs) return std::nullopt;
  form.packed = ElementType::kBF16;
  form.group = form.k_multiple = 2;
  form.step = Step::kBf16Pairs;
  return form;
}

namespace {

constexpr int64_t kRowPadding = 64;  // of slots, see allocate_scratch_slot

// The most rows whose sums, with NV vectors of B and one of A, stay in registers; of blocks they come in pairs.
int max_rows(int registers, int vectors, bool blocks) {
  const int rows = (registers - vectors - 1) / vectors;
  return blocks ? rows / 2 * 2 : rows;
}

// Cycles a step: two multiplications and two loads a cycle, and the latency of a chain of additions, with a cycle that
// any of them may come late: a block of eight sums would just hide the latency, and does not. Of blocks alike the one
// with the fewest loads is best: they wait for L2 where B's panel is larger than L1.
double step_cost(int64_t rows, int vectors) {
  const double r = static_cast<double>(rows), loads = (r + vectors) / 2;
  constexpr double kWaiting = 1.0 / 16, kLatency = 4 + 1;
  return std::max({r * vectors / 2, loads, kLatency}) + kWaiting * loads;
}

}  // namespace

// The fewest cycles for the whole tile, work on padding included; of few rows one block, so that B is read once.
Blocking choose_blocking(const CpuTarget& target, const DotForm& form, int lanes, int64_t m, int64_t n, int most_rows) {
  if (form.step == Step::kTiles) return {static_cast<int>(std::min<int64_t>(m, 32)), n > 16 ? 2 : 1};
  const bool blocks_of_rows = form.step == Step::kBlocks;
  auto rows_of = [&](int vectors) {
    return std::min(max_rows(target.vector_registers, vectors, blocks_of_rows), most_rows);
  };
  const bool one_block = m <= rows_of(2);
  Blocking best{1, 1};
  double best_cost = 1e300;
  for (int vectors : {4, 2, 1, 3, 8}) {
    const int64_t panel = int64_t{vectors} * lanes, panels = (n + panel - 1) / panel;
    const int rows = static_cast<int>(std::min<int64_t>(rows_of(vectors), m));
    // Vectors that a narrow tile would leave empty only cost registers, and rows that these could hold.
    if (panels == 1 && panel - n >= lanes) continue;
    // The accumulator is updated in place only if its rows hold whole panels.
    if (rows < (one_block ? m : 1) ||
        (vectors > 1 && panels * panel > (n + kRowPadding - 1) / kRowPadding * kRowPadding))
      continue;
    const int64_t blocks = (m + rows - 1) / rows;
    int64_t height = (m + blocks - 1) / blocks;
    if (blocks_of_rows && blocks > 1) height += height % 2;
    const int64_t tall = m - blocks * (height - 1);
    auto column = [&](int64_t width) {
      return static_cast<double>(tall) * step_cost(height, static_cast<int>(width)) +
             static_cast<double>(blocks - tall) * step_cost(height - 1, static_cast<int>(width));
    };
    const int64_t last = (n - (panels - 1) * panel + lanes - 1) / lanes;
    const double cost = column(vectors) * static_cast<double>(panels - 1) + column(last);
    if (cost < best_cost * 0.98) {
      best_cost = cost;
      best = {static_cast<int>(height), vectors};
    }
  }
  return best;
}

llvm::Type* vector_of(const DotBlocking& blocking, llvm::Type* scalar) {
  return llvm::FixedVectorType::get(scalar, static_cast<unsigned>(blocking.lanes));
}

}  // namespace kiln::codegen::cpu
