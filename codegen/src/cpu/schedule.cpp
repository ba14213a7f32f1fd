// Tiles are recomputed by each nest that wants them. That is wrong for a load that a store in between could change, and
// wasteful for an expensive value; both get a place in scratch.
#include "cpu/schedule.h"

#include <algorithm>
#include <functional>
#include <optional>

namespace kiln::codegen::cpu {
namespace {

using dsl::Op;
using dsl::OpCode;
using dsl::ValueId;

constexpr int kExpensive = 8;   // ops; a load from L1 is cheaper than this many

struct Place {
  int begin = 0;                 // position in program order; a loop spans its region
  int end = 0;
  const dsl::Region* region = nullptr;
};

class Scheduler {
 public:
  explicit Scheduler(const dsl::Kernel& kernel) : kernel_(kernel) {
    const size_t count = kernel.values.size();
    out_.keep.resize(count);
    out_.materialise.resize(count);
    out_.use_count.resize(count);
    out_.definition.resize(count);
    users_.resize(count);
  }

  Schedule run() {
    number(kernel_.body);
    for (ValueId id = 0; id < kernel_.values.size(); ++id) decide(id);
    return std::move(out_);
  }

 private:
  void number(const dsl::Region& region) {
    for (const Op& op : region.ops) {
      Place& place = places_[&op];
      place.region = &region;
      place.begin = next_++;
      for (ValueId operand : op.operands) {
        ++out_.use_count[operand];
        users_[operand].push_back(&op);
      }
      for (ValueId result : op.results) out_.definition[result] = &op;
      if (op.code == OpCode::kStore) stores_.push_back(&op);
      for (const dsl::Region& inner : op.regions) {
        loops_.push_back(&op);
        number(inner);
      }
      place.end = next_;
    }
  }

  bool is_tile(ValueId id) const { return !kernel_.type(id).is_scalar(); }

  static bool is_sink(const Op& op) {
    return op.code == OpCode::kStore || op.code == OpCode::kReduce || op.code == OpCode::kDot || op.code == OpCode::kFor ||
           op.code == OpCode::kYield;
  }

  void collect_sinks(ValueId id, std::vector<const Op*>& sinks) const {
    for (const Op* user : users_[id]) {
      if (is_sink(*user)) {
        if (std::find(sinks.begin(), sinks.end(), user) == sinks.end()) sinks.push_back(user);
      } else {
        for (ValueId result : user->results) collect_sinks(result, sinks);
      }
    }
  }

  int cost(ValueId id, int budget) const {
    const Op* op = out_.definition[id];
    if (!op || budget <= 0 || !is_tile(id)) return 0;
    int sum = op->code == OpCode::kMath ? 12 : op->code == OpCode::kDiv || op->code == OpCode::kRem ? 4 : 1;
    if (op->code == OpCode::kLoad || op->code == OpCode::kReduce || op->code == OpCode::kDot || op->code == OpCode::kFor) return sum;
    for (ValueId operand : op->operands) sum += cost(operand, budget - sum);
    return sum;
  }

  // The parameter that a pointer (tile) comes from; absent when it is not known.
  std::optional<ValueId> root(ValueId pointer) const {
    for (const dsl::Param& param : kernel_.params) {
      if (param.value == pointer) return pointer;
    }
    const Op* op = out_.definition[pointer];
    if (!op) return std::nullopt;
    switch (op->code) {
      case OpCode::kAddptr:
      case OpCode::kSplat:
      case OpCode::kBroadcast:
      case OpCode::kExpandDims:
      case OpCode::kPermute: return root(op->operands[0]);
      default: return std::nullopt;
    }
  }

  // The same pure expression, op by op.
  bool same_value(ValueId x, ValueId y) const {
    if (x == y) return true;
    const Op *a = out_.definition[x], *b = out_.definition[y];
    if (!a || !b || a->code != b->code || !dsl::info(a->code).has(dsl::kPure) || a->attrs != b->attrs ||
        a->operands.size() != b->operands.size()) {
      return false;
    }
    for (size_t i = 0; i < a->operands.size(); ++i) {
      if (!same_value(a->operands[i], b->operands[i])) return false;
    }
    return true;
  }

  const Place& place(const Op* op) const { return places_.at(op); }

  // Could a store change what a load reads between its place and the nest of `sink`?
  bool store_in_between(const Op& load, const Op& sink) const {
    int end = place(&sink).begin;
    // A sink inside a loop that does not contain the load is visited again: all of the loop counts.
    for (const Op* loop : loops_) {
      const bool holds_sink = place(loop).begin < place(&sink).begin && place(&sink).begin < place(loop).end;
      const bool holds_load = place(loop).begin < place(&load).begin && place(&load).begin < place(loop).end;
      if (holds_sink && !holds_load) end = std::max(end, place(loop).end);
    }
    const auto from = root(load.operands[0]);
    for (const Op* store : stores_) {
      const auto to = root(store->operands[0]);
      if (from && to && *from != *to) continue;
      const int at = place(store).begin;
      if (store == &sink) {
        // In-place elementwise: each lane reads before it writes its own address.
        if (!same_value(load.operands[0], store->operands[0])) return true;
      } else if (at > place(&load).begin && at < end) {
        return true;
      }
    }
    return false;
  }

  void decide(ValueId id) {
    const Op* op = out_.definition[id];
    if (!op || !is_tile(id)) return;
    if (op->code == OpCode::kReduce || op->code == OpCode::kDot || op->code == OpCode::kFor) return;
    std::vector<const Op*> sinks;
    if (op->code == OpCode::kLoad) {
      collect_sinks(id, sinks);
      out_.materialise[id] = std::any_of(sinks.begin(), sinks.end(), [&](const Op* sink) { return store_in_between(*op, *sink); });
      return;
    }
    if (kernel_.type(id).pointer || cost(id, kExpensive + 1) < kExpensive) return;
    collect_sinks(id, sinks);
    const bool elsewhere = std::any_of(sinks.begin(), sinks.end(), [&](const Op* s) { return place(s).region != place(op).region; });
    if (elsewhere) out_.materialise[id] = true;
    // Where every use has one use itself, the last of the chain is kept instead.
    else if (sinks.size() > 1 && users_[id].size() > 1) out_.keep[id] = true;
  }

  const dsl::Kernel& kernel_;
  Schedule out_;
  int next_ = 0;
  std::map<const Op*, Place> places_;
  std::vector<const Op*> loops_, stores_;
  std::vector<std::vector<const Op*>> users_;
};

}  // namespace

Schedule make_schedule(const dsl::Kernel& kernel) { return Scheduler(kernel).run(); }

}  // namespace kiln::codegen::cpu
