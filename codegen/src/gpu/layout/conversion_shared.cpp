// Conversions through shared memory: the source's threads store their elements, a barrier, the result's threads load
// theirs.
//
// What decides is which elements lie together in memory. A number of candidates for the lowest bits of the offset are
// tried: what both sides have in registers together, which makes both accesses wide; more of what one side has; or
// what one row of a matrix instruction takes. For each, the swizzle follows (swizzle.h), and then how each side can
// access that; the pair that needs the fewest wavefronts is taken.
#include "gpu/layout/conversion_shared.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "gpu/layout/swizzle.h"

namespace kiln::codegen::gpu {
namespace {

constexpr int kMatrixLanes = 32;  // of a warp that has matrix instructions
constexpr int kRowBytes = 16;     // of their matrices

int log2_of(int64_t number) { return std::countr_zero(static_cast<uint64_t>(number)); }

Columns joined(Columns a, const Columns& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Columns first(const Columns& columns, size_t count) {
  return {columns.begin(), columns.begin() + static_cast<ptrdiff_t>(std::min(count, columns.size()))};
}

// One side: what it stands for, and how it may access.
struct Side {
  const Layout& layout;
  bool matrices;
};

struct Problem {
  Side store, load;
  Columns space;  // the elements of block 0, in the order that is preferred
  int element_bits;
  const LaneFacts& facts;

  int bits_of_bytes(int64_t bytes) const { return std::max(0, log2_of(bytes) + 3 - log2_of(element_bits)); }
  int word_bits() const { return bits_of_bytes(4); }
  int line_bits() const { return bits_of_bytes(4 * facts.bank_count); }
};

// The elements of a matrix's row, in order, where the side can have matrices of this kind.
Columns row_of(const Problem& problem, const Side& side, AccessKind kind) {
  const Columns &registers = side.layout.bases(Dim::kRegister), &lanes = side.layout.bases(Dim::kLane);
  if (!side.matrices || side.layout.size(Dim::kLane) != kMatrixLanes || problem.element_bits > 32) return {};
  const size_t in_word = problem.word_bits();
  if (registers.size() < in_word) return {};
  Columns out;
  if (kind == AccessKind::kMatrix) {
    out = joined(first(registers, in_word), first(lanes, 2));
  } else if (problem.element_bits == 16) {
    out = {lanes[2], lanes[3], lanes[4]};
  }
  if (Span(out).rank() < static_cast<int>(out.size())) return {};
  return out;
}

// What the lanes differ in that one wavefront may serve: without conflicts it does.
Columns lanes_at_once(const Problem& problem, const Side& side, AccessKind kind, int vector_bits) {
  const Columns &registers = side.layout.bases(Dim::kRegister), &lanes = side.layout.bases(Dim::kLane);
  if (kind == AccessKind::kMatrix) return {lanes[2], lanes[3], lanes[4]};
  if (kind == AccessKind::kTransposedMatrix) return {registers[0], lanes[0], lanes[1]};
  const Columns& wide_lanes = problem.facts.wide_load_lanes;
  if (&side == &problem.load && vector_bits == problem.bits_of_bytes(16) && lanes.size() >= 5 && !wide_lanes.empty()) {
    return multiply(lanes, wide_lanes);
  }
  return first(lanes, problem.line_bits() - std::max(problem.word_bits(), vector_bits));
}

// So many of the lowest offset bits are in registers of the side.
int vector_bits(const Problem& problem, const Side& side, const Columns& swizzle) {
  const Span registers(side.layout.bases(Dim::kRegister));
  int out = 0;
  const int limit = std::min<int>(problem.bits_of_bytes(problem.facts.vector_bytes), static_cast<int>(swizzle.size()));
  while (out < limit && registers.contains(swizzle[out])) ++out;
  return out;
}

// The layout with elements replaced by their offsets; where elements are in another block, that part is left out.
Layout offsets_of(const Layout& layout, const Columns& swizzle) {
  Layout out({int64_t{1} << swizzle.size()});
  Span elements(swizzle);
  elements.insert(completion(swizzle, unit_vectors(layout.element_bits())));
  const Bits mask = (Bits{1} << swizzle.size()) - 1;
  for (Dim dim : kDims) {
    for (Bits element : layout.bases(dim)) out.add(dim, *elements.solve(element) & mask);
  }
  return out;
}

// Whether accesses begin at a multiple of their size whatever the thread: those of one matrix row begin together.
bool threads_aligned(const Layout& offsets, AccessKind kind, Bits low) {
  const Bits lanes_of_row = kind == AccessKind::kMatrix ? 0b00011 : kind == AccessKind::kTransposedMatrix ? 0b11100 : 0;
  for (Dim dim : {Dim::kLane, Dim::kWarp, Dim::kBlock}) {
    for (int i = 0; i < offsets.bits(dim); ++i) {
      const bool in_row = dim == Dim::kLane && (lanes_of_row >> i & 1) != 0;
      if (!in_row && (offsets.bases(dim)[i] & low) != 0) return false;
    }
  }
  return true;
}

// Registers for each access, so that it begins at a multiple of its size: the group's take away what is beyond one.
std::optional<Columns> aligned_registers(const Layout& offsets, const Columns& group, Bits low) {
  const Span in_group(multiply(offsets.bases(Dim::kRegister), group));
  Columns out;
  for (Bits reg : completion(group, unit_vectors(offsets.bits(Dim::kRegister)))) {
    const std::optional<Bits> beyond = in_group.solve(multiply(offsets.bases(Dim::kRegister), reg) & low);
    if (!beyond) return std::nullopt;
    out.push_back(reg ^ multiply(group, *beyond));
  }
  return out;
}

// The access by vectors of 2^bits elements, or by matrices; nothing where some thread would have them in another order.
std::optional<SharedAccess> access(const Problem& problem, const Side& side, const Columns& swizzle, AccessKind kind,
                                   int bits) {
  SharedAccess out{kind, offsets_of(side.layout, swizzle), {}, {}};
  const Bits low = (Bits{1} << bits) - 1;
  const bool vector = kind == AccessKind::kVector;
  if (vector) {
    const Span registers(out.offsets.bases(Dim::kRegister));
    for (Bits offset : unit_vectors(bits)) out.group.push_back(*registers.solve(offset));
  } else {
    out.group = unit_vectors(problem.word_bits());
  }
  if (!threads_aligned(out.offsets, kind, low)) return std::nullopt;
  // The two elements that a lane has of a transposed matrix are in two rows.
  if (kind == AccessKind::kTransposedMatrix && (out.offsets.at({.reg = 1}) & low) != 0) return std::nullopt;
  const std::optional<Columns> each = aligned_registers(out.offsets, out.group, low);
  if (!each) return std::nullopt;
  out.each = *each;

  const int64_t accesses = int64_t{1} << out.each.size();
  const int own_bits = vector ? std::max(bits, problem.word_bits()) : problem.bits_of_bytes(kRowBytes);
  const Columns at_once = lanes_at_once(problem, side, kind, bits);
  const int64_t rounds = vector ? side.layout.size(Dim::kLane) >> at_once.size() : 1;
  out.instructions = vector ? accesses : (accesses + 3) / 4;
  out.wavefronts = accesses * rounds * bank_conflicts(swizzle, at_once, own_bits, problem.line_bits());
  return out;
}

// The best access of this side to that memory, `wanted` or the widest vectors that can be.
SharedAccess best_access(const Problem& problem, const Side& side, const Columns& swizzle, AccessKind wanted) {
  if (wanted != AccessKind::kVector) {
    const int row_bits = problem.bits_of_bytes(kRowBytes);
    if (const auto matrices = access(problem, side, swizzle, wanted, row_bits)) return *matrices;
  }
  for (int bits = vector_bits(problem, side, swizzle);; --bits) {
    if (const auto vectors = access(problem, side, swizzle, AccessKind::kVector, bits)) return *vectors;
  }
}

std::vector<Columns> candidates(const Problem& problem) {
  const Columns &store = problem.store.layout.bases(Dim::kRegister), &load = problem.load.layout.bases(Dim::kRegister);
  const size_t widest = problem.bits_of_bytes(problem.facts.vector_bytes);
  const Columns both = first(intersection(store, load), widest);
  std::vector<Columns> out = {both};
  for (const Columns* more : {&store, &load}) {
    const Columns wide = first(joined(both, completion(both, *more)), widest);
    out.push_back(wide);
    // Half of it leaves more freedom to keep the other side's lanes apart.
    if (wide.size() > both.size() + 1) out.push_back(first(wide, wide.size() - 1));
  }
  out.push_back({});
  for (const Side* side : {&problem.store, &problem.load}) {
    for (AccessKind kind : {AccessKind::kMatrix, AccessKind::kTransposedMatrix}) {
      if (const Columns row = row_of(problem, *side, kind); !row.empty()) out.push_back(row);
    }
  }
  return out;
}

std::vector<AccessKind> kinds_for(const Problem& problem, const Side& side, const Columns& vector) {
  std::vector<AccessKind> out = {AccessKind::kVector};
  for (AccessKind kind : {AccessKind::kMatrix, AccessKind::kTransposedMatrix}) {
    if (!vector.empty() && row_of(problem, side, kind) == vector) out.push_back(kind);
  }
  return out;
}

RoundTrip round_trip(const Problem& problem, const Columns& vector, AccessKind stores, AccessKind loads) {
  const auto at_once = [&](const Side& side, AccessKind kind) {
    return lanes_at_once(problem, side, kind, vector_bits(problem, side, vector));
  };
  const Columns swizzle = choose_swizzle({problem.space, vector, problem.word_bits(), problem.line_bits(),
                                          at_once(problem.store, stores), at_once(problem.load, loads)});
  RoundTrip out{Layout(problem.store.layout.shape()), best_access(problem, problem.store, swizzle, stores),
                best_access(problem, problem.load, swizzle, loads),
                (int64_t{1} << swizzle.size()) * problem.element_bits / 8};
  out.memory.add(Dim::kOffset, swizzle);
  return out;
}

// The best of all kinds of accesses of one side.
SharedAccess best_of_all(const Problem& problem, const Side& side, const Columns& memory) {
  const size_t row_bits = static_cast<size_t>(problem.bits_of_bytes(kRowBytes));
  std::optional<SharedAccess> best;
  for (AccessKind kind : kinds_for(problem, side, first(memory, row_bits))) {
    SharedAccess one = best_access(problem, side, memory, kind);
    const auto cost = [](const SharedAccess& a) { return std::tuple(a.wavefronts, a.instructions); };
    if (!best || cost(one) < cost(*best)) best = std::move(one);
  }
  return *best;
}

// Whether all that a block of the result needs was in that block.
bool within_blocks(const Layout& source, const Layout& result, const Span& block) {
  for (Dim dim : {Dim::kRegister, Dim::kLane, Dim::kWarp}) {
    if (!std::ranges::all_of(result.bases(dim), [&](Bits element) { return block.contains(element); })) return false;
  }
  for (int i = 0; i < source.bits(Dim::kBlock); ++i) {
    if (!block.contains(source.bases(Dim::kBlock)[i] ^ result.bases(Dim::kBlock)[i])) return false;
  }
  return true;
}

// So many of the lowest offset bits count along one axis.
int bits_along_an_axis(const Layout& memory) {
  const Columns& offsets = memory.bases(Dim::kOffset);
  int most = 0;
  for (int axis = 0; axis < memory.rank(); ++axis) {
    int bits = 0;
    while (bits < std::ssize(offsets) && offsets[bits] == Bits{1} << (memory.axis_offset(axis) + bits)) ++bits;
    most = std::max(most, bits);
  }
  return most;
}

}  // namespace

SharedAccess plan_shared_store(const Layout& memory, const Layout& layout, int element_bits, const LaneFacts& facts) {
  const Problem problem{{layout, facts.matrix_store}, {layout, false}, {}, element_bits, facts};
  return best_of_all(problem, problem.store, memory.bases(Dim::kOffset));
}

SharedAccess plan_shared_load(const Layout& memory, const Layout& layout, int element_bits, const LaneFacts& facts) {
  const Problem problem{{layout, false}, {layout, facts.matrix_load}, {}, element_bits, facts};
  return best_of_all(problem, problem.load, memory.bases(Dim::kOffset));
}

std::optional<RoundTrip> plan_round_trip(const Layout& source, const Layout& result, int element_bits,
                                         const LaneFacts& facts) {
  const Columns held = joined(source.bases(Dim::kRegister), joined(source.bases(Dim::kLane), source.bases(Dim::kWarp)));
  const Span block(held);
  if (!within_blocks(source, result, block)) return std::nullopt;
  Columns space;
  for (Bits element : unit_vectors(source.element_bits())) {
    if (block.contains(element)) space.push_back(element);
  }
  space = joined(space, completion(space, held));
  const Problem problem{{source, facts.matrix_store}, {result, facts.matrix_load}, space, element_bits, facts};
  std::optional<RoundTrip> best;
  // Of equal ones, that in which neighbours in memory are neighbours in the tile: offsets are simpler.
  const auto cost = [](const RoundTrip& trip) {
    return std::tuple(trip.store.wavefronts + trip.load.wavefronts, trip.store.instructions + trip.load.instructions,
                      -bits_along_an_axis(trip.memory));
  };
  for (const Columns& vector : candidates(problem)) {
    for (AccessKind stores : kinds_for(problem, problem.store, vector)) {
      for (AccessKind loads : kinds_for(problem, problem.load, vector)) {
        RoundTrip trip = round_trip(problem, vector, stores, loads);
        if (!best || cost(trip) < cost(*best)) best = std::move(trip);
      }
    }
  }
  return best;
}

}  // namespace kiln::codegen::gpu
