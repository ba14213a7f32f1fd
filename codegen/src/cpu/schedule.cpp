// Tiles are recomputed by each nest that wants them. That is wrong for a load that a store in between could change, and
// wasteful for an expensive value; both get a place in scratch.
#include "cpu/schedule.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "cpu/sinks.h"
#include "kiln/dsl/traits.h"
#include "kiln/dsl/uses.h"
#include "passes/pointers.h"

namespace kiln::codegen::cpu {
namespace {

using dsl::Op;
using dsl::OpCode;
using dsl::ValueId;

constexpr int kExpensive = 8;     // ops; a load from L1 is cheaper than this many
constexpr int64_t kManyRows = 4;  // for which one row is computed

// Ops that one nest evaluates at most, about: what is more is put into scratch on the way. It keeps the compiler's
// recursion shallow and its basic blocks short; ordinary kernels have fewer ops in all.
constexpr int kMostOps = 512;

class Scheduler {
 public:
  explicit Scheduler(const dsl::Kernel& kernel) : kernel_(kernel), pointers_(kernel), order_(kernel) {
    const size_t count = kernel.values.size();
    out_.keep.resize(count);
    out_.materialise.resize(count);
    out_.use_count.resize(count);
    out_.user.resize(count);
    out_.definition = dsl::definitions(kernel);
    out_.defining_region.resize(count);
    out_.by_elements.resize(count, true);
    index_.resize(count);
    size_.resize(count);
    repeated_.resize(count);
  }

  Schedule run() {
    for (const dsl::Param& param : kernel_.params) index_[param.value] = is_index_new(param.value);
    dsl::for_each_region(kernel_, [&](const dsl::Region& region) {
      for (ValueId argument : region.args) {
        out_.defining_region[argument] = &region;
        index_[argument] = is_index_new(argument);
      }
    });
    for (const Op* op : order_.ops) note_op(*op, *place(*op).region);
    for (const Op* op : order_.ops) {
      for (ValueId id : op->results) index_[id] = is_index_new(id);
    }
    sinks_ = find_sinks(kernel_, order_, pointers_, out_.defining_region);
    for (ValueId id = 0; id < kernel_.values.size(); ++id) decide(id);
    cut_long();
    find_moves();
    find_write_only();
    if (!kernel_.options.check_bounds) {
      find_fused(kernel_.body);
      keep_less();
    }
    find_stored_again();
    return std::move(out_);
  }

 private:
  // In program order: an op, and the region that it stands in.
  void note_op(const Op& op, const dsl::Region& region) {
    for (ValueId operand : op.operands) {
      if (makes_code(op)) {
        ++out_.use_count[operand];
        out_.user[operand] = &op;
      }
      if (!is_elementwise(op) || out_.defining_region[operand] != &region) out_.by_elements[operand] = false;
    }
    for (ValueId result : op.results) out_.defining_region[result] = &region;
    if (op.code == OpCode::kBroadcast && is_repeated(op)) repeated_[op.operands[0]] = true;
    if (dsl::info(op.code).has(dsl::kWrites)) note_write(op);
    if (op.code == OpCode::kLoad) loads_.push_back(&op);
  }

  // Whether each row of a tile is the same one: a nest goes over rows, and would compute it for each.
  bool is_repeated(const Op& broadcast) const {
    const dsl::Type &from = kernel_.type(broadcast.operands[0]), &to = kernel_.type(broadcast.results[0]);
    if (from.is_scalar()) return false;
    const auto row = dsl::concrete_shape(from), all = dsl::concrete_shape(to);
    const int64_t elements = dsl::element_count(from);
    return row.back() > 1 && row.back() == all.back() && elements == row.back() &&
           dsl::element_count(to) >= elements * kManyRows;
  }

  bool is_tile(ValueId id) const { return !kernel_.type(id).is_scalar(); }
  // Computed where it is wanted.
  bool is_lazy(ValueId id) const {
    const Op* op = out_.definition[id];
    return op && is_tile(id) && !is_eager(op->code) && !out_.materialise[id];
  }

  // Of an op alone. What has several operands costs something: the search for costs ends by that.
  static int own_cost(const Op& op) {
    if (op.code == OpCode::kSplat || is_view(op)) return 0;
    if (op.code == OpCode::kMath) return 12;
    return dsl::info(op.code).has(dsl::kExpensive) ? 4 : 1;
  }

  // Indices become addresses, and comparisons of them the bounds of loops.
  int cost(ValueId id, int budget) {
    const Op* op = out_.definition[id];
    if (!op || budget <= 0 || !is_tile(id) || index_[id]) return 0;
    if (op->code == OpCode::kLoad || is_eager(op->code)) return 1;
    int sum = own_cost(*op);
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
    if (family_of(op) != dsl::OpFamily::kAtomic) return false;
    const auto order = std::get<int64_t>(op.attrs[op.code == OpCode::kAtomicCas ? 0 : 1]);
    return static_cast<dsl::MemoryOrder>(order) != dsl::MemoryOrder::kRelaxed;
  }

  void find_write_only() {
    std::set<ValueId> read;
    bool reads_anything = false;
    const auto note = [&](const Op* op) {
      const auto from = root(op->operands[0]);
      if (from) read.insert(*from);
      reads_anything = reads_anything || !from;
    };
    for (const Op* load : loads_) note(load);
    for (const Op* store : stores_) {
      if (store->code != OpCode::kStore) note(store);
    }
    if (reads_anything) return;
    for (const Op* store : stores_) {
      const auto to = store->code == OpCode::kStore ? root(store->operands[0]) : std::nullopt;
      if (to && !may_alias(*to) && !read.contains(*to)) out_.write_only.insert(store);
    }
  }

  // Operands stand before what uses them.
  void find_moves() {
    out_.moves.resize(kernel_.values.size());
    for (ValueId id = 0; id < kernel_.values.size(); ++id) {
      // An argument of a region; parameters stay what they are.
      if (!out_.definition[id] && out_.defining_region[id]) out_.moves[id] = {.at_all = true, .by_iterations = true};
    }
    for (const Op* op : order_.ops) {
      Moves moves = {.at_all = op->code == OpCode::kProgramId};
      for (ValueId operand : op->operands) {
        const Moves& part = out_.moves[operand];
        moves.at_all |= part.at_all;
        moves.by_iterations |= part.by_iterations;
        moves.by_rows |= part.by_rows || (part.by_iterations && op->code == OpCode::kMul);
      }
      for (ValueId result : op->results) out_.moves[result] = moves;
    }
  }

  // Through what is computed anew where it is wanted.
  void find_stored_again() {
    std::map<const dsl::Region*, std::set<ValueId>> seen_in;
    for (const Op* store : stores_) {
      if (!out_.write_only.contains(store)) continue;
      const dsl::Region* region = place(*store).region;
      std::set<ValueId>& seen = seen_in[region];
      std::vector<ValueId> todo = {store->operands[1]};
      while (!todo.empty()) {
        const ValueId id = todo.back();
        todo.pop_back();
        const Op* op = out_.definition[id];
        if (!op || !seen.insert(id).second) continue;
        if (op->code == OpCode::kLoad) out_.stored_again.insert({region, id});
        if (is_lazy(id) && !out_.keep[id]) todo.insert(todo.end(), op->operands.begin(), op->operands.end());
      }
    }
  }

  // Whether neither can change what lies behind the other.
  bool apart(ValueId pointer, ValueId other) const {
    const auto one = root(pointer), two = root(other);
    return one && two && *one != *two && !may_alias(*one) && !may_alias(*two);
  }

  // Stores that a walk is to make, and the loads that evaluating them takes; with whether elements come from other
  // places on some way there.
  struct Group {
    std::vector<const Op*> stores;
    std::set<std::pair<const Op*, bool>> loads;
    std::set<std::pair<ValueId, bool>> seen;
    int size = 0;  // ops
  };

  std::vector<std::pair<const Op*, bool>> add_loads(const Op& store, Group& group) const {
    std::vector<std::pair<const Op*, bool>> out;
    std::vector<std::pair<ValueId, bool>> todo;
    for (ValueId operand : store.operands) todo.emplace_back(operand, false);
    while (!todo.empty()) {
      const auto [id, crossed] = todo.back();
      todo.pop_back();
      if (!is_lazy(id) || !group.seen.insert({id, crossed}).second) continue;
      const Op* op = out_.definition[id];
      if (op->code == OpCode::kLoad && group.loads.insert({op, crossed}).second) out.emplace_back(op, crossed);
      const bool moves = !is_elementwise(*op) && op->code != OpCode::kLoad;
      for (ValueId operand : op->operands) todo.emplace_back(operand, crossed || moves);
    }
    return out;
  }

  // What a chunk of the walk has stored, no later one reads.
  bool may_share(const Op& store, const Op& load, bool crossed, const Op& first) {
    if (apart(load.operands[0], store.operands[0])) return true;
    return !crossed && load.operands[0] == store.operands[0] && pointers_.distinct(store.operands[0]) &&
           place(load).begin < place(first).begin;
  }

  int size_of(const Op& store) const {
    int sum = 0;
    for (ValueId operand : store.operands) sum += size_[operand];
    return sum;
  }

  // Adds the store to the walk where that may make it too. Otherwise the group is spoilt: its walk ends here.
  bool join(Group& group, const Op& store) {
    if (!group.stores.empty() && !fits(group, store)) return false;
    const std::vector<std::pair<const Op*, bool>> known(group.loads.begin(), group.loads.end());
    const auto added = add_loads(store, group);
    const Op& first = group.stores.empty() ? store : *group.stores.front();
    const auto is_fine = [&](const Op& each, const auto& loads) {
      return std::all_of(loads.begin(), loads.end(),
                         [&](const auto& load) { return may_share(each, *load.first, load.second, first); });
    };
    group.stores.push_back(&store);
    group.size += size_of(store);
    if (group.stores.size() == 1) return true;
    // Of the first store alone nothing was asked yet.
    if (group.stores.size() == 2 && !is_fine(first, known)) return false;
    return is_fine(store, known) &&
           std::all_of(group.stores.begin(), group.stores.end(), [&](const Op* each) { return is_fine(*each, added); });
  }

  // The same places, and no array twice.
  bool fits(const Group& group, const Op& store) const {
    const Op& first = *group.stores.front();
    const auto& types = kernel_.values;
    if (store.operands.size() != first.operands.size() || !is_tile(store.operands[0])) return false;
    if (types[store.operands[0]].type.shape != types[first.operands[0]].type.shape) return false;
    if (store.operands.size() > 2 && store.operands[2] != first.operands[2]) return false;
    if (group.size + size_of(store) > kMostOps) return false;
    return std::all_of(group.stores.begin(), group.stores.end(),
                       [&](const Op* other) { return apart(other->operands[0], store.operands[0]); });
  }

  // What may stand between two stores of a walk: it is computed where it is wanted, or reads no memory.
  bool waits(const Op& op) const {
    if (is_eager(op.code) || !is_pure(op)) return false;
    return std::none_of(op.results.begin(), op.results.end(),
                        [&](ValueId id) { return out_.materialise[id] || (op.code == OpCode::kLoad && !is_tile(id)); });
  }

  void find_fused(const dsl::Region& region) {
    Group group;
    const auto end_group = [&](size_t stores) {
      group.stores.resize(stores);
      if (stores > 1) out_.fused.push_back(std::move(group.stores));
      group = {};
    };
    for (const Op& op : region.ops) {
      for (const dsl::Region& inner : op.regions) find_fused(inner);
      if (op.code == OpCode::kStore) {
        const size_t before = group.stores.size();
        if (before > 0 && !join(group, op)) end_group(before);
        if (group.stores.empty() && is_tile(op.operands[0])) join(group, op);
      } else if (!waits(op)) {
        end_group(group.stores.size());
      }
    }
    end_group(group.stores.size());
  }

  // What all of a walk want, and nobody else, is computed once as it is.
  void keep_less() {
    if (out_.fused.empty()) return;
    const std::vector<int> groups = find_groups(kernel_, order_, out_.fused);
    for (ValueId id = 0; id < kernel_.values.size(); ++id) {
      if (groups[id] >= 0) out_.keep[id] = false;
    }
  }

  // ---- loads ----

  void note_write(const Op& op) {
    const int at = place(op).begin;
    const auto to = root(op.operands[0]);
    stores_.push_back(&op);
    writes_.push_back(at);
    if (to && !may_alias(*to)) {
      writes_to_[*to].push_back(at);
    } else {
      vague_writes_.push_back(at);
    }
    if (orders_memory(op)) ordering_.push_back(at);
  }

  // Whether one of these places lies between two others, but for one.
  static bool any_between(const std::vector<int>& places, int begin, int end, int except) {
    auto at = std::upper_bound(places.begin(), places.end(), begin);
    if (at != places.end() && *at == except) ++at;
    return at != places.end() && *at < end;
  }

  // Could a store other than `except` change what a load reads, between two places?
  bool written_between(std::optional<ValueId> from, int begin, int end, int except) const {
    const auto any = [&](const std::vector<int>& places) { return any_between(places, begin, end, except); };
    if (any(ordering_) && !(from && is_constant(*from))) return true;
    if (!from || may_alias(*from)) return any(writes_);
    const auto own = writes_to_.find(*from);
    return any(vague_writes_) || (own != writes_to_.end() && any(own->second));
  }

  // Could a store change what a load reads between its place and the nest of a sink?
  bool may_change(const Op& load) {
    const Sinks& sinks = sinks_[load.results[0]];
    if (!sinks.any()) return false;
    const auto from = root(load.operands[0]);
    // In-place elementwise: each lane reads before it writes its own address. Equal pointers are one value by now.
    for (const Sinks::Write& write : sinks.writes) {
      const auto to = write.parameter ? std::optional(kernel_.params[*write.parameter].value) : std::nullopt;
      if (from && to && *from != *to && !may_alias(*from) && !may_alias(*to)) continue;
      if (!write.in_place || write.pointer != load.operands[0] || !pointers_.distinct(write.pointer)) return true;
    }
    // Whatever is in the way of another sink is in the way of the last one, but for that one itself.
    const int begin = place(load).begin, last = place(*sinks.last.sink).begin;
    return written_between(from, begin, sinks.last.end, last) ||
           (last < sinks.last_but_one.end && written_between(from, last - 1, last + 1, -1));
  }

  // ---- values ----

  // Indices and masks. Computed where they are wanted they become addresses and bounds, from scratch they would be mere
  // numbers.
  bool is_index_new(ValueId id) const {
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
        return std::all_of(op->operands.begin(), op->operands.end(), [&](ValueId operand) { return index_[operand]; });
      default:
        return false;
    }
  }

  void decide(ValueId id) {
    const Op* op = out_.definition[id];
    if (!op || !is_tile(id)) return;
    if (is_eager(op->code)) return;
    if (op->code == OpCode::kLoad) {
      out_.materialise[id] = may_change(*op);
      return;
    }
    if (kernel_.type(id).pointer || cost(id, kExpensive + 1) < kExpensive) return;
    if (index_[id]) return;
    const Sinks& sinks = sinks_[id];
    if (sinks.elsewhere || repeated_[id]) out_.materialise[id] = true;
    // Where every use has one use itself, the last of the chain is kept instead.
    else if (sinks.several() && out_.use_count[id] > 1)
      out_.keep[id] = true;
  }

  // The ops of each value that were not counted for another one, and what makes nests too long put into scratch. Of
  // indices and pointers only much later: in scratch they are no addresses any more.
  void cut_long() {
    std::vector<ValueId> owner(kernel_.values.size(), dsl::kNoValue);
    for (const Op* op : order_.ops) {
      if (op->results.empty() || !is_lazy(op->results[0])) continue;
      const ValueId id = op->results[0];
      int size = std::max(1, own_cost(*op));
      for (ValueId operand : op->operands) {
        if (!is_lazy(operand) || owner[operand] != dsl::kNoValue) continue;
        owner[operand] = id;
        size += size_[operand];
      }
      const bool is_address = index_[id] || kernel_.type(id).pointer;
      const bool is_long = size > (is_address ? 2 : 1) * kMostOps;
      for (ValueId result : op->results) {  // two of `split`: a chain may go on from either
        if (is_long) {
          put_into_scratch(result);
          has_cuts_ = true;
        } else {
          size_[result] = size;
        }
      }
    }
    if (has_cuts_) cut_across(owner);
  }

  void put_into_scratch(ValueId id) {
    out_.materialise[id] = true;
    out_.keep[id] = false;
    size_[id] = 0;
  }

  // Between what is in scratch now, and sinks, too: an expensive value of one is not computed again for another.
  void cut_across(const std::vector<ValueId>& owner) {
    std::vector<ValueId> part(kernel_.values.size(), dsl::kNoValue);  // the value in scratch that it is computed for
    for (size_t i = order_.ops.size(); i-- > 0;) {
      for (ValueId id : order_.ops[i]->results) {
        part[id] = out_.materialise[id] ? id : owner[id] == dsl::kNoValue ? dsl::kNoValue : part[owner[id]];
      }
    }
    for (const Op* op : order_.ops) {
      const ValueId user =
          !op->results.empty() && is_tile(op->results[0]) && !is_eager(op->code) ? part[op->results[0]] : dsl::kNoValue;
      for (ValueId operand : op->operands) {
        const bool expensive = is_lazy(operand) && !index_[operand] && !kernel_.type(operand).pointer &&
                               cost(operand, kExpensive + 1) >= kExpensive;
        if (expensive && part[operand] != user) put_into_scratch(operand);
      }
    }
  }

  const Place& place(const Op& op) const { return order_.place(op); }

  const dsl::Kernel& kernel_;
  Pointers pointers_;
  const ProgramOrder order_;
  Schedule out_;
  std::vector<Sinks> sinks_;
  std::vector<bool> index_;
  std::vector<bool> repeated_;  // the only row of a tile of many
  std::vector<int> size_;       // of the value's own nest: ops
  bool has_cuts_ = false;
  std::vector<const Op*> stores_, loads_;
  // Where they stand: all of them, those behind one parameter for certain, the others, atomics that order memory.
  std::vector<int> writes_, vague_writes_, ordering_;
  std::map<ValueId, std::vector<int>> writes_to_;
};

}  // namespace

bool is_eager(OpCode code) {
  switch (dsl::info(code).family) {
    case dsl::OpFamily::kMovement:
    case dsl::OpFamily::kAtomic:
    case dsl::OpFamily::kDot:
    case dsl::OpFamily::kCollective:
    case dsl::OpFamily::kRandom:
    case dsl::OpFamily::kControl:
      return true;
    default:
      return false;
  }
}

Schedule make_schedule(const dsl::Kernel& kernel) { return Scheduler(kernel).run(); }

}  // namespace kiln::codegen::cpu
