#include "launches/stream.h"

#include <algorithm>
#include <array>
#include <set>

#include "kiln/dsl/canonical.h"
#include "kiln/dsl/rewrite.h"
#include "kiln/dsl/traits.h"
#include "launches/loop.h"
#include "launches/split.h"

namespace kiln::codegen {
namespace {

using dsl::ElementType;
using dsl::Op;
using dsl::OpBuilder;
using dsl::OpCode;
using dsl::ValueId;

constexpr std::array<int64_t, 3> kLastProgram = {INT32_MAX - 1, 65534, 65534};  // along an axis (docs/reference/ops.md)

// Scalars that are the same in all programs, and computed from parameters.
class Uniform {
 public:
  explicit Uniform(const dsl::Kernel& kernel) : kernel_(kernel) {
    for (const dsl::Param& param : kernel.params) ids_.insert(param.value);
    for (const Op& op : kernel.body.ops) {
      if (is_such(op)) ids_.insert(op.results.begin(), op.results.end());
    }
  }

  bool has(ValueId id) const { return ids_.contains(id); }
  // Whether the op gives such, or says something of one.
  bool has(const Op& op) const {
    if (op.code == OpCode::kAssume) return has(op.operands[0]);
    return !op.results.empty() && std::ranges::all_of(op.results, [&](ValueId id) { return has(id); });
  }

 private:
  bool is_such(const Op& op) const {
    return op.code != OpCode::kProgramId && is_pure(op) && op.regions.empty() &&
           std::ranges::all_of(op.operands, [&](ValueId id) { return has(id); }) &&
           std::ranges::all_of(op.results, [&](ValueId id) { return kernel_.type(id).is_scalar(); });
  }

  const dsl::Kernel& kernel_;
  std::set<ValueId> ids_;
};

bool has_uniform_bounds(const dsl::Kernel& kernel, const Op& loop) {
  const Uniform uniform(kernel);
  return uniform.has(loop.operands[0]) && uniform.has(loop.operands[1]);
}

// Partial sums keep their places in the workspace when launches/words.h gives them one type.
bool has_sums_of_one_width(const dsl::Kernel& kernel, const Op& loop) {
  const auto bytes = [&](ValueId id) { return dsl::info(kernel.type(id).element).bytes; };
  return std::ranges::all_of(loop.results, [&](ValueId id) { return bytes(id) == bytes(loop.results[0]); });
}

struct Stream : SplitLoop {
  int64_t workers, chunks;
};

// What is the same in all programs, i64.
struct Deal {
  ValueId trips;  // iterations of a program
  ValueId each;   // iterations of a worker, 1 or more
  ValueId all;    // iterations of all programs
};

ValueId program_count(OpBuilder& build, int64_t axis) {
  return Ints(build, ElementType::kI64).cast(build.add(OpCode::kNumPrograms, {}, {axis}));
}

Deal deal_out(OpBuilder& build, const Stream& stream) {
  Ints ints(build, ElementType::kI64);
  const ValueId trips = trips_of(build, stream.loop);
  const ValueId plane = ints.mul(program_count(build, 1), program_count(build, 2));
  const ValueId tiles = ints.mul(program_count(build, 0), plane);
  const ValueId all = ints.mul(tiles, trips);
  const ValueId most = ints.mul(tiles, ints.constant(stream.chunks));
  const ValueId workers = ints.min(ints.constant(stream.workers), most);
  return {trips, ints.max(ints.quotient_up(all, workers), ints.constant(1)), all};
}

// The number of this program in the kernel's grid, i64.
ValueId program_number(OpBuilder& build) {
  Ints ints(build, ElementType::kI64);
  const auto id = [&](int64_t axis) { return ints.cast(build.add(OpCode::kProgramId, {}, {axis})); };
  const ValueId row = ints.add(id(1), ints.mul(program_count(build, 1), id(2)));
  return ints.add(id(0), ints.mul(program_count(build, 0), row));
}

// The places along the grid's axes of the program with this number, i32, with what is known of program ids.
std::array<ValueId, 3> program_ids(OpBuilder& build, ValueId number) {
  Ints wide(build, ElementType::kI64), narrow(build, ElementType::kI32);
  const ValueId columns = program_count(build, 0), rows = program_count(build, 1);
  const ValueId row = wide.quotient(number, columns);
  const std::array<ValueId, 3> out = {narrow.cast(wide.rest(number, columns)), narrow.cast(wide.rest(row, rows)),
                                      narrow.cast(wide.quotient(row, rows))};
  for (size_t axis = 0; axis < 3; ++axis) {
    const dsl::Expr one(1);
    build.effect(OpCode::kAssume, {out[axis]}, {one, one, dsl::Expr(0), dsl::Expr(kLastProgram[axis])});
  }
  return out;
}

// Program ids become those of the program at hand.
class Renaming {
 public:
  explicit Renaming(const std::array<ValueId, 3>& ids) : ids_(ids) {}

  // Appends the op, unless it is but a program id.
  void append(std::vector<Op>& out, Op op) {
    for (dsl::Region& inner : op.regions) {
      dsl::rewrite_ops(inner, [this](Op& each, std::vector<Op>& kept) { append_renamed(each, kept); });
    }
    append_renamed(op, out);
  }

 private:
  void append_renamed(Op& op, std::vector<Op>& out) {
    instead_.apply(op.operands);
    if (op.code == OpCode::kProgramId) {
      instead_.set(op.results[0], ids_[static_cast<size_t>(int_attr(op, 0))]);
    } else {
      out.push_back(std::move(op));
    }
  }

  const std::array<ValueId, 3> ids_;
  dsl::ValueMap instead_;
};

// The step of the workers.
class Workers {
 public:
  Workers(const LaunchSequence& sequence, const dsl::Kernel& source, const Stream& stream)
      : sequence_(sequence), source_(source), stream_(stream), kernel_(source) {}

  dsl::Kernel take() {
    kernel_.body.ops.clear();
    OpBuilder build(kernel_, kernel_.body.ops, stream_.loop.loc);
    assume_params(build, stream_, stream_.chunks);
    const Uniform uniform(source_);
    std::vector<Op> of_program;
    for (const Op& op : source_.body.ops) {
      if (op.results == stream_.loop.results) break;
      if (op.code != OpCode::kAssume && has_effect(op)) continue;
      (uniform.has(op) ? kernel_.body.ops : of_program).push_back(op);
    }
    append_programs(build, of_program);
    return dsl::canonicalise(kernel_);
  }

 private:
  void append_programs(OpBuilder& build, const std::vector<Op>& of_program) {
    Ints ints(build, ElementType::kI64);
    deal_ = deal_out(build, stream_);
    own_number_ = program_number(build);
    worker_ = ints.add(ints.cast(stream_.chunk), ints.mul(own_number_, ints.constant(stream_.chunks)));
    first_ = ints.mul(worker_, deal_.each);
    end_ = ints.min(ints.add(first_, deal_.each), deal_.all);
    const ValueId trips = ints.max(deal_.trips, ints.constant(1));
    const ValueId from = ints.quotient(first_, trips), to = ints.quotient_up(end_, trips), one = ints.constant(1);
    const ValueId number = fresh_value(kernel_, dsl::scalar_type(ElementType::kI64));
    dsl::Region body{{number}, {}};
    append_program(body.ops, number, of_program);
    std::vector<dsl::Attr> attrs = dsl::with_default_attrs(OpCode::kFor, {});
    kernel_.body.ops.push_back(
        {OpCode::kFor, {from, to, one}, {}, std::move(attrs), {std::move(body)}, stream_.loop.loc});
  }

  // What the worker does of the program with this number.
  void append_program(std::vector<Op>& out, ValueId number, const std::vector<Op>& of_program) {
    OpBuilder build(kernel_, out, stream_.loop.loc);
    Renaming renaming(program_ids(build, number));
    for (const Op& op : of_program) renaming.append(out, op);
    Ints ints(build, ElementType::kI64);
    const ValueId before = ints.mul(number, deal_.trips);
    const ValueId first = ints.max(ints.sub(first_, before), ints.constant(0));
    const ValueId end = ints.min(ints.sub(end_, before), deal_.trips);
    std::vector<Op> loop;
    renaming.append(loop, stream_.loop);
    append_part(kernel_, out, std::move(loop[0]), {first, end, deal_.trips});
    const ValueId slot = ints.sub(worker_, ints.quotient(before, deal_.each));
    store_partials(build, stream_, pointers_of(build, number), Ints(build, ElementType::kI32).cast(slot));
    build.effect(OpCode::kYield, {});
  }

  // Those of a program: its part of the workspace lies so many parts behind that of the one which this one works for.
  std::vector<ValueId> pointers_of(OpBuilder& build, ValueId number) {
    Ints ints(build, ElementType::kI64);
    const ValueId distance = ints.sub(number, own_number_);
    std::vector<ValueId> out;
    for (ValueId pointer : stream_.pointers) {
      const int64_t elements = sequence_.workspace_bytes / dsl::info(kernel_.type(pointer).element).bytes;
      out.push_back(build.add(OpCode::kAddptr, {pointer, ints.mul(distance, ints.constant(elements))}));
    }
    return out;
  }

  const LaunchSequence& sequence_;
  const dsl::Kernel& source_;
  const Stream& stream_;
  dsl::Kernel kernel_;
  Deal deal_{};
  ValueId own_number_ = 0, worker_ = 0, first_ = 0, end_ = 0;
};

// Of the program that runs.
ValueId used_slots(OpBuilder& build, const Stream& stream) {
  Ints ints(build, ElementType::kI64);
  const Deal deal = deal_out(build, stream);
  const ValueId before = ints.mul(program_number(build), deal.trips);
  const ValueId end = ints.quotient_up(ints.add(before, deal.trips), deal.each);
  return ints.sub(end, ints.quotient(before, deal.each));
}

}  // namespace

bool stream_product(LaunchSequence& sequence, int64_t workers, int64_t chunks) {
  const dsl::Kernel& kernel = sequence.steps.back().kernel;
  const Op* loop = find_product_loop(kernel);
  if (!loop || !has_uniform_bounds(kernel, *loop) || !has_sums_of_one_width(kernel, *loop)) return false;
  Stream stream{{*loop, chunks + 1}, workers, chunks};
  add_slots(sequence, stream);
  LaunchStep& last = sequence.steps.back();
  LaunchStep before{Workers(sequence, last.kernel, stream).take(), "kiln_stage_0", chunks};
  last.kernel = make_sums(last.kernel, stream, [&](OpBuilder& build) { return used_slots(build, stream); });
  store_in_parts(sequence);
  sequence.steps.insert(sequence.steps.end() - 1, std::move(before));
  return true;
}

}  // namespace kiln::codegen
