// Work by static count. A few programs of the grid are walked with the workload's ints: scalars are computed, tiles of
// indices and masks are known as affine functions and boxes (work_values.h), and of each loop two iterations are
// walked, the middle one for all but the last. What an op does counts as often as the iterations and programs that it
// stands for. Programs and iterations in the middle make counts exact where they depend on their number linearly; the
// last ones are walked on their own, since their tiles stand over the edge. Of the grid's second axis they are pairs:
// what depends on it may come round again, such as the order of blocks of attention.
#include <algorithm>
#include <cmath>
#include <map>

#include "kiln/autotune/model.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/traits.h"
#include "model/live_tiles.h"
#include "model/work_values.h"

namespace kiln::autotune {
namespace {

using dsl::OpCode;

constexpr double kLineBytes = 64;
constexpr int64_t kFarBytes = 2048;  // between rows: caches do not look that far ahead

double elements(const dsl::Type& type) { return static_cast<double>(dsl::element_count(type)); }

bool is_cheap(dsl::MathFn fn) {
  using enum dsl::MathFn;
  for (dsl::MathFn cheap : {kSqrt, kRsqrt, kCopysign, kSignbit, kFloor, kCeil, kRound, kTrunc, kIsnan, kIsinf}) {
    if (fn == cheap) return true;
  }
  return false;
}

// The places of a number 0 … count-1 that stand for all, with how many each stands for: the middles of `parts` equal
// parts of all but the last, and the last.
std::vector<std::pair<int64_t, double>> samples(int64_t count, int64_t parts) {
  std::vector<std::pair<int64_t, double>> out;
  if (count <= parts + 1) {
    for (int64_t i = 0; i < count; ++i) out.emplace_back(i, 1);
    return out;
  }
  const auto before = static_cast<double>(count - 1), size = before / static_cast<double>(parts);
  for (int64_t i = 0; i < parts; ++i) {
    out.emplace_back(static_cast<int64_t>(size * (static_cast<double>(i) + 0.5)), size);
  }
  out.emplace_back(count - 1, 1);
  return out;
}

// The same of numbers on which counts may depend in periods: the last, and for the others pairs that lie alike about
// the middle of all, which in each whole period cancel out, at multiples of the golden section.
std::vector<std::pair<int64_t, double>> scattered_samples(int64_t count) {
  constexpr int kPairs = 4;
  constexpr double kGolden = 0.6180339887498949;
  if (count <= 2 * kPairs + 1) return samples(count, 2 * kPairs);
  std::vector<std::pair<int64_t, double>> out;
  for (int i = 1; i <= kPairs; ++i) {
    const auto place = static_cast<int64_t>(std::fmod(i * kGolden, 1) * static_cast<double>(count));
    for (int64_t one : {place, count - 1 - place}) {
      out.emplace_back(one, static_cast<double>(count - 1) / (2 * kPairs));
    }
  }
  out.emplace_back(count - 1, 1);
  return out;
}

// Of a loop from below `end`, which may be the whole range of i64: more than an int64_t holds counts as all it holds.
int64_t trips_of(int64_t start, int64_t end, int64_t step) {
  const uint64_t before = static_cast<uint64_t>(end) - static_cast<uint64_t>(start) - 1;
  const uint64_t trips = before / static_cast<uint64_t>(step) + 1;
  return static_cast<int64_t>(std::min<uint64_t>(trips, INT64_MAX));
}

class Counter {
 public:
  Counter(const dsl::Kernel& kernel, const Workload& workload, std::array<uint32_t, 3> grid)
      : kernel_(kernel),
        workload_(workload),
        grid_(grid),
        known_(kernel.values.size()),
        computed_(kernel.values.size()),
        loaded_(kernel.params.size()),
        stored_(kernel.params.size()) {
    const dsl::Bindings scalars = bindings(kernel, workload);
    for (uint32_t i = 0; i < kernel.params.size(); ++i) {
      KnownValue value{.base = scalars.params[i], .strides = std::vector<int64_t>{}};
      if (kernel.params[i].type.pointer) value = {.base = 0, .strides = std::vector<int64_t>{}, .param = i};
      known_[kernel.params[i].value] = std::move(value);
    }
  }

  Work run() {
    for (auto [x, many_x] : samples(grid_[0], 4)) {
      for (auto [y, many_y] : scattered_samples(grid_[1])) {
        for (auto [z, many_z] : samples(grid_[2], 1)) {
          program_ = {x, y, z};
          visit(kernel_.body, many_x * many_y * many_z);
        }
      }
    }
    work_.programs = static_cast<double>(grid_[0]) * grid_[1] * grid_[2];
    work_.steps += work_.programs;
    for (size_t i = 0; i < kernel_.params.size(); ++i) {
      const double array = static_cast<double>(workload_.arguments[i].elements) * bytes_of(kernel_.params[i].type);
      work_.loaded += loaded_[i];
      work_.stored += stored_[i];
      work_.compulsory += std::min(array, loaded_[i]) + std::min(array, stored_[i]);
    }
    for (const auto& [type, flops] : dots_) {
      if (flops >= dots_[work_.dot_type]) work_.dot_type = type;
      work_.dot_flops += flops;
    }
    work_.tile_bytes = live_tile_bytes(kernel_, computed_);
    work_.register_bytes = register_tile_bytes(kernel_);
    return work_;
  }

 private:
  static double bytes_of(const dsl::Type& type) { return dsl::info(type.element).bytes; }

  void visit(const dsl::Region& region, double many) {
    for (const dsl::Op& op : region.ops) visit(op, many);
  }

  void set(dsl::ValueId id, KnownValue value) {
    computed_[id] = computed_[id] || value.data;
    work_.estimated |= value.estimated && kernel_.type(id).is_scalar();
    known_[id] = std::move(value);
  }

  void visit(const dsl::Op& op, double many) {
    switch (op.code) {
      case OpCode::kProgramId:
        return set(op.results[0], known_scalar(program_[axis_of(op)]));
      case OpCode::kNumPrograms:
        return set(op.results[0], known_scalar(grid_[axis_of(op)]));
      case OpCode::kFor:
        return visit_for(op, many);
      case OpCode::kIf:
        return visit_if(op, many);
      case OpCode::kWhile:
        return visit_while(op, many);
      case OpCode::kLoad:
        return visit_load(op, many);
      case OpCode::kStore:
        return touch(op.operands[0], mask_of(op, 2), many, stored_);
      case OpCode::kAtomicRmw:
      case OpCode::kAtomicCas:
        return visit_atomic(op, many);
      case OpCode::kLoadTile:
      case OpCode::kStoreTile:
      case OpCode::kReduceTile:
      case OpCode::kGatherRows:
        return visit_described(op, many);
      case OpCode::kDot:
      case OpCode::kDotScaled:
        count_dot(op, many);
        return set_data(op);
      case OpCode::kReduce:
      case OpCode::kScan:
      case OpCode::kSort:
      case OpCode::kTopk:
      case OpCode::kHistogram:
      case OpCode::kGather:
        count_along_axis(op, many);
        return set_data(op);
      default:
        return visit_pure(op, many);
    }
  }

  static size_t axis_of(const dsl::Op& op, size_t attribute = 0) {
    return static_cast<size_t>(std::get<int64_t>(op.attrs[attribute]));
  }

  // Results of which nothing is known but that they come from the operands.
  void set_data(const dsl::Op& op) {
    bool data = false;
    for (dsl::ValueId id : op.operands) data |= known_[id].data;
    for (dsl::ValueId id : op.results) set(id, {.data = data});
  }

  void visit_pure(const dsl::Op& op, double many) {
    std::vector<const KnownValue*> operands;
    for (dsl::ValueId id : op.operands) operands.push_back(&known_[id]);
    KnownValue value = evaluate(kernel_, op, operands);
    if (op.results.empty()) return;
    // Indices, masks and addresses that are affine cost nothing: they are computed once, or by the address unit.
    const bool free = value.strides || value.box || !kernel_.type(op.results[0]).is_value();
    if (!free && is_elementwise(op)) count_elementwise(op, many);
    for (size_t i = 1; i < op.results.size(); ++i) set(op.results[i], {.data = value.data});
    set(op.results[0], std::move(value));
  }

  void count_elementwise(const dsl::Op& op, double many) {
    const double count = many * elements(kernel_.type(op.results[0]));
    if (op.code == OpCode::kMath && !is_cheap(static_cast<dsl::MathFn>(std::get<int64_t>(op.attrs[0])))) {
      work_.math += count;
    } else if (op.code == OpCode::kPhilox) {
      work_.flops += 100 * count;  // ten rounds of ten operations
    } else {
      work_.flops += op.code == OpCode::kFma ? 2 * count : count;
    }
  }

  void count_dot(const dsl::Op& op, double many) {
    const std::vector<int64_t> a = dsl::concrete_shape(kernel_.type(op.operands[0]));
    const std::vector<int64_t> out = dsl::concrete_shape(kernel_.type(op.results[0]));
    dsl::ElementType type = kernel_.type(op.operands[0]).element;
    double flops = 2 * many * elements(kernel_.type(op.results[0])) * static_cast<double>(a.back());
    if (op.code == OpCode::kDotScaled && type == dsl::ElementType::kU8) flops *= 2;  // two numbers a byte
    if (op.code == OpCode::kDot) {
      // Reduced precision runs on the units of small floats, in one pass or three.
      const auto precision = static_cast<dsl::Precision>(std::get<int64_t>(op.attrs[0]));
      if (precision != dsl::Precision::kIeee) type = dsl::ElementType::kBF16;
      if (precision == dsl::Precision::kTf32x3 || precision == dsl::Precision::kBf16x3) flops *= 3;
    }
    dots_[type] += flops;
    for (dsl::ValueId id : op.operands) {
      work_.dot_bytes += many * elements(kernel_.type(id)) * bytes_of(kernel_.type(id));
    }
    work_.dot_bytes += many * elements(kernel_.type(op.results[0])) * bytes_of(kernel_.type(op.results[0]));
  }

  void count_along_axis(const dsl::Op& op, double many) {
    const double count = many * elements(kernel_.type(op.operands[0]));
    if (op.code == OpCode::kScan && dsl::concrete_shape(kernel_.type(op.operands[0]))[axis_of(op, 1)] > 1) {
      for (dsl::ValueId id : op.operands) count_scratch(id, many);
      for (dsl::ValueId id : op.results) count_scratch(id, many);
    }
    const double log = std::log2(std::max(2.0, elements(kernel_.type(op.operands[0]))));
    double each = 1;
    if (op.code == OpCode::kSort) each = log * log;
    if (op.code == OpCode::kTopk) each = log;
    if (!op.regions.empty()) each = std::max<double>(1, static_cast<double>(op.regions[0].ops.size()) - 1);
    work_.flops += each * count;
  }

  // A tile that is written once and read once.
  void count_scratch(dsl::ValueId id, double many) {
    if (kernel_.type(id).is_scalar()) return;
    work_.scratch_bytes += 2 * many * elements(kernel_.type(id)) * bytes_of(kernel_.type(id));
  }

  // What a loop carries from one iteration to the next; what dots add to is counted with them.
  void count_carried(const dsl::Region& body, double many) {
    for (size_t i = 1; i < body.args.size(); ++i) {
      const dsl::ValueId next = body.ops.back().operands[i - 1];
      const bool of_dot = std::any_of(body.ops.begin(), body.ops.end(), [&](const dsl::Op& op) {
        return family_of(op) == dsl::OpFamily::kDot && op.results[0] == next;
      });
      if (!of_dot && kernel_.type(next).is_value()) count_scratch(next, many);
    }
  }

  // ---- memory

  const KnownValue* mask_of(const dsl::Op& op, size_t index) const {
    return op.operands.size() > index ? &known_[op.operands[index]] : nullptr;
  }

  void touch(dsl::ValueId pointers, const KnownValue* mask, double many, std::vector<double>& bytes) {
    const KnownValue& pointer = known_[pointers];
    const dsl::Type& type = kernel_.type(pointers);
    std::vector<double> extents;
    for (int64_t extent : dsl::concrete_shape(type)) extents.push_back(static_cast<double>(extent));
    for (size_t i = 0; mask && mask->box && i < extents.size(); ++i) {
      extents[i] = static_cast<double>((*mask->box)[i].size());
    }
    if (mask && !mask->box && mask->data) work_.estimated = true;
    if (!pointer.base && pointer.data) work_.estimated = true;
    std::vector<std::optional<int64_t>> steps;
    for (size_t i = 0; i < extents.size(); ++i) steps.push_back(pointer.step(i));
    if (&bytes == &loaded_) count_jumps(extents, steps, type.element, many);
    count_bytes(extents, steps, type.element, pointer.param, many, bytes);
  }

  // Rows that lie far apart, of which a tile has a piece each.
  void count_jumps(const std::vector<double>& extents, const std::vector<std::optional<int64_t>>& steps,
                   dsl::ElementType type, double many) {
    if (extents.size() < 2) return;
    const auto& step = steps[extents.size() - 2];
    if (!step || std::abs(*step) < kFarBytes / dsl::info(type).bytes) return;
    double rows = 1;
    for (size_t i = 0; i + 1 < extents.size(); ++i) rows *= extents[i];
    work_.jumps += many * rows;
  }

  // Places with equal addresses count once.
  void count_bytes(const std::vector<double>& extents, const std::vector<std::optional<int64_t>>& steps,
                   dsl::ElementType type, std::optional<uint32_t> param, double many, std::vector<double>& bytes) {
    const double size = dsl::info(type).bytes;
    double count = 1, run = 1;
    for (size_t i = 0; i < extents.size(); ++i) {
      if (steps[i] == 0) {
        count *= std::min(extents[i], 1.0);
        continue;
      }
      count *= extents[i];
      if (steps[i] == 1 || steps[i] == -1) run = std::max(run, extents[i]);
    }
    const double lines = std::ceil(run * size / kLineBytes) * kLineBytes / (run * size);
    work_.lines += many * count * size * lines;
    if (param) bytes[*param] += many * count * size;
  }

  void visit_load(const dsl::Op& op, double many) {
    touch(op.operands[0], mask_of(op, 1), many, loaded_);
    KnownValue value{.data = true};
    const KnownValue& pointer = known_[op.operands[0]];
    if (kernel_.type(op.results[0]).is_scalar() && pointer.param) {
      // One number of an array of which the range is known: the expected one.
      if (const auto& range = workload_.arguments[*pointer.param].range) {
        value.base = range->first + (range->second - 1 - range->first) / 2;
        value.strides = std::vector<int64_t>{};
        value.estimated = range->second - range->first > 1;
      }
    }
    set(op.results[0], std::move(value));
  }

  void visit_atomic(const dsl::Op& op, double many) {
    const KnownValue* mask = mask_of(op, op.code == OpCode::kAtomicCas ? 3 : 2);
    touch(op.operands[0], mask, many, loaded_);
    touch(op.operands[0], mask, many, stored_);
    work_.flops += many * elements(kernel_.type(op.results[0]));
    set(op.results[0], {.data = true});
  }

  // Places [offset, offset + block) within the array's extent, as far as both are known.
  static double clipped(const KnownValue& extent, const KnownValue& offset, double block) {
    const auto end = extent.uniform(), first = offset.uniform();
    if (!end || !first) return block;
    return std::clamp(static_cast<double>(*end - *first), 0.0, block);
  }

  void visit_described(const dsl::Op& op, double many) {
    const KnownValue& view = known_[op.operands[0]];
    const dsl::Type& type = kernel_.type(op.operands[0]);
    const bool gathers = op.code == OpCode::kGatherRows, loads = op.code == OpCode::kLoadTile || gathers;
    std::vector<double> extents;
    for (int64_t extent : dsl::concrete_shape(type)) extents.push_back(static_cast<double>(extent));
    if (gathers) {
      extents[0] = elements(kernel_.type(op.operands[1]));
      extents[1] = clipped(view.dims[1], known_[op.operands[2]], extents[1]);
      work_.estimated |= known_[op.operands[1]].data;
    } else {
      const size_t first = loads ? 1 : 2;
      for (size_t i = 0; i < extents.size(); ++i) {
        extents[i] = clipped(view.dims[i], known_[op.operands[first + i]], extents[i]);
      }
    }
    std::vector<std::optional<int64_t>> steps(extents.size(), 1);
    for (size_t i = 0; i + 1 < steps.size(); ++i) steps[i] = view.dims[extents.size() + i].uniform();
    if (loads) count_jumps(extents, steps, type.element, many);
    if (loads || op.code == OpCode::kReduceTile) count_bytes(extents, steps, type.element, view.param, many, loaded_);
    if (!loads) count_bytes(extents, steps, type.element, view.param, many, stored_);
    for (dsl::ValueId id : op.results) set(id, {.data = true});
  }

  // ---- control

  void visit_for(const dsl::Op& op, double many) {
    const dsl::Region& body = op.regions[0];
    const auto start = known_[op.operands[0]].uniform(), end = known_[op.operands[1]].uniform(),
               step = known_[op.operands[2]].uniform();
    for (size_t i = 1; i < body.args.size(); ++i) forget(body.args[i], op.operands[i + 2], op);
    if (!start || !end || !step || *step < 1) {
      work_.estimated = true;
      set(body.args[0], {.data = true});
      work_.steps += many;
      visit(body, many);
    } else if (*end > *start) {
      const int64_t trips = trips_of(*start, *end, *step);
      work_.steps += many * static_cast<double>(trips);
      count_carried(body, many * static_cast<double>(trips));
      for (auto [trip, times] : samples(trips, 1)) {
        set(body.args[0],
            known_scalar(static_cast<int64_t>(static_cast<uint64_t>(*start) +
                                              static_cast<uint64_t>(trip) * static_cast<uint64_t>(*step))));
        visit(body, many * times);
      }
    }
    for (size_t i = 0; i < op.results.size(); ++i) forget(op.results[i], op.operands[i + 3], op);
  }

  // What a loop carries is data where its first value or any result of the body is, which need not be known yet.
  void forget(dsl::ValueId id, dsl::ValueId init, const dsl::Op& op) {
    const bool tile = !kernel_.type(id).is_scalar();
    KnownValue value{.param = known_[init].param, .data = tile || known_[init].data || op.code == OpCode::kWhile};
    set(id, std::move(value));
  }

  void visit_if(const dsl::Op& op, double many) {
    const auto condition = known_[op.operands[0]].uniform();
    if (condition) {
      const dsl::Region& taken = op.regions[*condition != 0 ? 0 : 1];
      visit(taken, many);
      for (size_t i = 0; i < op.results.size(); ++i) set(op.results[i], known_[taken.ops.back().operands[i]]);
      return;
    }
    work_.estimated = true;
    for (const dsl::Region& region : op.regions) visit(region, many / static_cast<double>(op.regions.size()));
    for (dsl::ValueId id : op.results) set(id, {.data = true});
  }

  void visit_while(const dsl::Op& op, double many) {
    work_.estimated = true;
    for (const dsl::Region& region : op.regions) {
      for (dsl::ValueId id : region.args) set(id, {.data = true});
      visit(region, many);
    }
    work_.steps += many;
    for (size_t i = 0; i < op.results.size(); ++i) forget(op.results[i], op.operands[i], op);
  }

  const dsl::Kernel& kernel_;
  const Workload& workload_;
  std::array<uint32_t, 3> grid_;
  std::array<int64_t, 3> program_ = {};
  std::vector<KnownValue> known_;        // by value, in the program and iteration that is walked
  std::vector<bool> computed_;           // by value: it depends on data in memory
  std::vector<double> loaded_, stored_;  // bytes by parameter
  std::map<dsl::ElementType, double> dots_;
  Work work_;
};

// Parts of loops that add up products, side by side: each stores its sums, which are loaded again. Workers that share
// all iterations (stream_k), 0 for none, begin in the midst of a program or where one ends.
void split_products(const dsl::Kernel& kernel, double parts, double workers, Work& work) {
  double sums = 0;
  for (const dsl::Op& op : kernel.body.ops) {
    if (op.code != OpCode::kFor || work.dot_flops == 0) continue;
    for (dsl::ValueId id : op.results) sums += elements(kernel.type(id)) * dsl::info(kernel.type(id).element).bytes;
  }
  if (sums == 0) return;
  const double programs = workers > 0 ? std::min(workers, parts * work.programs) : parts * work.programs;
  const double moved = (workers > 0 ? work.programs + programs : programs) * sums;
  work.loaded += moved;
  work.stored += moved;
  work.lines += 2 * moved;
  work.programs = programs;
  work.launches = 2;
}

}  // namespace

Result<Work> count_work(const dsl::Kernel& kernel, const Config& config, const Workload& workload) {
  auto concrete = dsl::instantiate(kernel, config, facts_of(kernel, workload));
  if (!concrete) return concrete.error();
  auto grid = dsl::evaluate_grid(concrete->grid, bindings(kernel, workload, config));
  if (!grid) return invalid_argument("kernel `" + kernel.name + "`: " + grid.error().message);
  Work out = Counter(*concrete, workload, *grid).run();
  const int64_t parts = dsl::schedule_option(config, dsl::kSplitK);
  const int64_t workers = dsl::schedule_option(config, dsl::kStreamK);
  if (parts > 1 || workers > 0) {
    split_products(*concrete, static_cast<double>(parts), static_cast<double>(workers), out);
  }
  return out;
}

}  // namespace kiln::autotune
