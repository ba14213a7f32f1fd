// Tiles are recomputed by each nest that wants them. That is wrong for a load that a store in between could change, and
// wasteful for an expensive value; both get a place in scratch.
#include "cpu/schedule.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "passes/pointers.h"

namespace kiln::codegen::cpu {
namespace {

using dsl::Op;
using dsl::OpCode;
using dsl::ValueId;

constexpr int kExpensive = 8;  // ops; a load from L1 is cheaper than this many

struct Place {
  int begin = 0;  // position in program order; a loop spans its region
  int end = 0;
  const dsl::Region* region = nullptr;
};

// What is known of a value is no use of it: with facts about arguments a kernel is scheduled as without.
bool makes_code(const Op& op) { return op.code != OpCode::kAssume && op.code != OpCode::kRequire; }

class Scheduler {
 public:
  explicit Scheduler(const dsl::Kernel& kernel) : kernel_(kernel), pointers_(kernel) {
    const size_t count = kernel.values.size();
    out_.keep.resize(count);
    out_.materialise.resize(count);
    out_.use_count.resize(count);
    out_.definition.resize(count);
    out_.home.resize(count);
    users_.resize(count);
  }

  Schedule run() {
    number(kernel_.body);
    for (ValueId id = 0; id < kernel_.values.size(); ++id) decide(id);
    find_write_only();
    if (!kernel_.options.check_bounds) find_together(kernel_.body);
    return std::move(out_);
  }

 private:
  void number(const dsl::Region& region) {
    for (ValueId argument : region.args) out_.home[argument] = &region;
    for (const Op& op : region.ops) {
      Place& place = places_[&op];
      place.region = &region;
      place.begin = next_++;
      if (makes_code(op)) {
        for (ValueId operand : op.operands) {
          ++out_.use_count[operand];
          users_[operand].push_back(&op);
        }
      }
      for (ValueId result : op.results) {
        out_.definition[result] = &op;
        out_.home[result] = &region;
      }
      if (dsl::info(op.code).has(dsl::kWrites)) stores_.push_back(&op);
      if (op.code == OpCode::kLoad) loads_.push_back(&op);
      for (const dsl::Region& inner : op.regions) {
        loops_.push_back(&op);
        number(inner);
      }
      place.end = next_;
    }
  }

  bool is_tile(ValueId id) const { return !kernel_.type(id).is_scalar(); }

  static bool is_sink(const Op& op) {
    return is_eager(op.code) || dsl::info(op.code).has(dsl::kEffect) || op.code == OpCode::kYield;
  }

  // What the value ends up in: all of it, and the sinks that it reaches by elementwise ops alone.
  struct Sinks {
    std::set<const Op*> all, crossed;  // crossed: some way there moves elements to other places
  };

  Sinks sinks_of(ValueId value) const {
    Sinks out;
    std::set<std::pair<ValueId, bool>> seen;
    std::vector<std::pair<ValueId, bool>> todo = {{value, false}};
    while (!todo.empty()) {
      const auto [id, crossed] = todo.back();
      todo.pop_back();
      if (!seen.insert({id, crossed}).second) continue;
      for (const Op* user : users_[id]) {
        if (is_sink(*user)) {
          out.all.insert(user);
          if (crossed) out.crossed.insert(user);
        } else {
          const bool moves = !dsl::info(user->code).has(dsl::kElementwise) && user->code != OpCode::kLoad;
          for (ValueId result : user->results) todo.emplace_back(result, crossed || moves);
        }
      }
    }
    return out;
  }

  // Of an op alone. What has several operands costs something: the search for costs ends by that.
  static int own_cost(OpCode code) {
    switch (code) {
      case OpCode::kMath:
        return 12;
      case OpCode::kDiv:
      case OpCode::kRem:
        return 4;
      case OpCode::kSplat:
      case OpCode::kBroadcast:
      case OpCode::kExpandDims:
      case OpCode::kPermute:
        return 0;
      default:
        return 1;
    }
  }

  // Indices become addresses, and comparisons of them the bounds of loops.
  int cost(ValueId id, int budget) {
    const Op* op = out_.definition[id];
    if (!op || budget <= 0 || !is_tile(id) || is_index(id)) return 0;
    int sum = own_cost(op->code);
    if (op->code == OpCode::kLoad || is_eager(op->code)) return sum;
    for (ValueId operand : op->operands) sum += cost(operand, budget - sum);
    return sum;
  }

  // The parameter that a pointer (tile) comes from; absent when it is not known.
  std::optional<ValueId> root(ValueId pointer) const {
    const auto parameter = pointers_.parameter(pointer);
    return parameter ? std::optional(kernel_.params[*parameter].value) : std::nullopt;
  }

  bool may_alias(ValueId pointer) const {
    return std::any_of(kernel_.params.begin(), kernel_.params.end(),
                       [&](const dsl::Param& param) { return param.value == pointer && param.may_alias; });
  }

  // Nobody writes what lies behind the pointer while the kernel runs.
  bool is_constant(ValueId pointer) const {
    return std::any_of(kernel_.params.begin(), kernel_.params.end(), [&](const dsl::Param& param) {
      return param.value == pointer && param.readonly && !param.may_alias;
    });
  }

  // An atomic after which other programs may write anything, or after which what they wrote is to be seen.
  static bool orders_memory(const Op& op) {
    if (op.code != OpCode::kAtomicRmw && op.code != OpCode::kAtomicCas) return false;
    const auto order = std::get<int64_t>(op.attrs[op.code == OpCode::kAtomicCas ? 0 : 1]);
    return static_cast<dsl::MemoryOrder>(order) != dsl::MemoryOrder::kRelaxed;
  }

  void find_write_only() {
    for (const Op* store : stores_) {
      const auto to = store->code == OpCode::kStore ? root(store->operands[0]) : std::nullopt;
      const auto touches = [&](const Op* op) { return root(op->operands[0]).value_or(*to) == *to; };
      const bool is_read = !to || may_alias(*to) || std::any_of(loads_.begin(), loads_.end(), touches) ||
                           std::any_of(stores_.begin(), stores_.end(), [&](const Op* other) {
                             return other->code != OpCode::kStore && touches(other);
                           });
      if (!is_read) out_.write_only.insert(store);
    }
  }

  const Place& place(const Op* op) const { return places_.at(op); }

  // Whether neither can change what lies behind the other.
  bool apart(ValueId pointer, ValueId other) const {
    const auto one = root(pointer), two = root(other);
    return one && two && *one != *two && !may_alias(*one) && !may_alias(*two);
  }

  // The loads that evaluating a value takes, and whether elements come from other places on some way there.
  void find_loads(ValueId id, bool crossed, std::set<std::pair<const Op*, bool>>& found,
                  std::set<std::pair<ValueId, bool>>& seen) const {
    const Op* op = out_.definition[id];
    if (!op || !is_tile(id) || out_.materialise[id] || is_eager(op->code) || !seen.insert({id, crossed}).second) return;
    if (op->code == OpCode::kLoad) found.insert({op, crossed});
    const bool moves = !dsl::info(op->code).has(dsl::kElementwise) && op->code != OpCode::kLoad;
    for (ValueId operand : op->operands) find_loads(operand, crossed || moves, found, seen);
  }

  // What a chunk of the walk has stored, no later one reads, nor another one stores there.
  bool fits(const std::vector<const Op*>& group, const Op& store) {
    const Op& first = *group.front();
    const auto& types = kernel_.values;
    if (store.operands.size() != first.operands.size() || !is_tile(store.operands[0])) return false;
    if (types[store.operands[0]].type.shape != types[first.operands[0]].type.shape) return false;
    if (store.operands.size() > 2 && store.operands[2] != first.operands[2]) return false;
    for (const Op* other : group) {
      if (!apart(other->operands[0], store.operands[0])) return false;
    }
    std::vector<const Op*> all = group;
    all.push_back(&store);
    std::set<std::pair<const Op*, bool>> loads;
    std::set<std::pair<ValueId, bool>> seen;
    for (const Op* each : all) {
      for (ValueId operand : each->operands) find_loads(operand, false, loads, seen);
    }
    for (const auto& [load, crossed] : loads) {
      for (const Op* each : all) {
        if (apart(load->operands[0], each->operands[0])) continue;
        const bool in_place = !crossed && load->operands[0] == each->operands[0] &&
                              pointers_.distinct(each->operands[0]) && place(load).begin < place(&first).begin;
        if (!in_place) return false;
      }
    }
    return true;
  }

  // What may stand between two stores of a walk: it is computed where it is wanted, or reads no memory.
  bool waits(const Op& op) const {
    if (is_eager(op.code) || !dsl::info(op.code).has(dsl::kPure)) return false;
    return std::none_of(op.results.begin(), op.results.end(),
                        [&](ValueId id) { return out_.materialise[id] || (op.code == OpCode::kLoad && !is_tile(id)); });
  }

  void find_together(const dsl::Region& region) {
    std::vector<const Op*> group;
    const auto end_group = [&] {
      if (group.size() > 1) out_.together.push_back(group);
      group.clear();
    };
    for (const Op& op : region.ops) {
      for (const dsl::Region& inner : op.regions) find_together(inner);
      if (op.code == OpCode::kStore) {
        if (!group.empty() && !fits(group, op)) end_group();
        if (!group.empty() || is_tile(op.operands[0])) group.push_back(&op);
      } else if (!waits(op)) {
        end_group();
      }
    }
    end_group();
    // What all of a walk want, and nobody else, is computed once as it is.
    for (ValueId id = 0; id < kernel_.values.size(); ++id) {
      if (!out_.keep[id]) continue;
      const std::set<const Op*> sinks = sinks_of(id).all;
      for (const auto& each : out_.together) {
        const auto is_of_it = [&](const Op* sink) { return std::find(each.begin(), each.end(), sink) != each.end(); };
        if (std::all_of(sinks.begin(), sinks.end(), is_of_it)) out_.keep[id] = false;
      }
    }
  }

  // Could a store change what a load reads between its place and the nest of `sink`?
  bool store_in_between(const Op& load, const Op& sink, bool elementwise) {
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
      const int at = place(store).begin;
      const bool between = store != &sink && at > place(&load).begin && at < end;
      if (between && orders_memory(*store) && !(from && is_constant(*from))) return true;
      if (from && to && *from != *to && !may_alias(*from) && !may_alias(*to)) continue;
      if (store == &sink && store->code == OpCode::kStore) {
        // In-place elementwise: each lane reads before it writes its own address. Equal pointers are one value by now.
        if (!elementwise || load.operands[0] != store->operands[0] || !pointers_.distinct(store->operands[0]))
          return true;
      } else if (store == &sink || between) {
        return true;
      }
    }
    return false;
  }

  // Indices and masks. Computed where they are wanted they become addresses and bounds, from scratch they would be mere
  // numbers.
  bool is_index(ValueId id) {
    if (auto known = index_.find(id); known != index_.end()) return known->second;
    return index_[id] = is_index_new(id);
  }

  bool is_index_new(ValueId id) {
    const Op* op = out_.definition[id];
    if (kernel_.type(id).pointer || dsl::is_float(kernel_.type(id).element)) return false;
    if (!is_tile(id)) return true;
    if (!op) return false;
    switch (op->code) {
      case OpCode::kArange:
      case OpCode::kSplat:
      case OpCode::kBroadcast:
      case OpCode::kExpandDims:
      case OpCode::kPermute:
      case OpCode::kCast:
      case OpCode::kAdd:
      case OpCode::kSub:
      case OpCode::kMul:
      case OpCode::kAnd:
      case OpCode::kCmp:
        return std::all_of(op->operands.begin(), op->operands.end(),
                           [&](ValueId operand) { return is_index(operand); });
      default:
        return false;
    }
  }

  void decide(ValueId id) {
    const Op* op = out_.definition[id];
    if (!op || !is_tile(id)) return;
    if (is_eager(op->code)) return;
    if (op->code == OpCode::kLoad) {
      const Sinks sinks = sinks_of(id);
      out_.materialise[id] = std::any_of(sinks.all.begin(), sinks.all.end(), [&](const Op* sink) {
        return store_in_between(*op, *sink, sinks.crossed.count(sink) == 0);
      });
      return;
    }
    if (kernel_.type(id).pointer || cost(id, kExpensive + 1) < kExpensive) return;
    if (is_index(id)) return;
    const std::set<const Op*> sinks = sinks_of(id).all;
    const bool elsewhere =
        std::any_of(sinks.begin(), sinks.end(), [&](const Op* s) { return place(s).region != place(op).region; });
    if (elsewhere) out_.materialise[id] = true;
    // Where every use has one use itself, the last of the chain is kept instead.
    else if (sinks.size() > 1 && users_[id].size() > 1)
      out_.keep[id] = true;
  }

  const dsl::Kernel& kernel_;
  Pointers pointers_;
  Schedule out_;
  int next_ = 0;
  std::map<const Op*, Place> places_;
  std::map<ValueId, bool> index_;
  std::vector<const Op*> loops_, stores_, loads_;
  std::vector<std::vector<const Op*>> users_;
};

}  // namespace

bool is_eager(OpCode code) {
  switch (code) {
    case OpCode::kReshape:
    case OpCode::kJoin:
    case OpCode::kSplit:
    case OpCode::kCat:
    case OpCode::kSlice:
    case OpCode::kGather:
    case OpCode::kAtomicRmw:
    case OpCode::kAtomicCas:
    case OpCode::kDot:
    case OpCode::kDotScaled:
    case OpCode::kReduce:
    case OpCode::kScan:
    case OpCode::kSort:
    case OpCode::kTopk:
    case OpCode::kHistogram:
    case OpCode::kPhilox:
    case OpCode::kFor:
    case OpCode::kWhile:
    case OpCode::kIf:
      return true;
    default:
      return false;
  }
}

Schedule make_schedule(const dsl::Kernel& kernel) { return Scheduler(kernel).run(); }

}  // namespace kiln::codegen::cpu
