#include "launches/launch_sequence.h"

#include <algorithm>
#include <set>

#include "kiln/dsl/canonical.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/text.h"
#include "kiln/dsl/walk.h"
#include "launches/bind.h"
#include "launches/join.h"
#include "launches/product.h"
#include "launches/reduce.h"
#include "launches/scan.h"
#include "launches/sort.h"
#include "launches/stores.h"
#include "launches/stream.h"
#include "launches/topk.h"
#include "launches/words.h"
#include "passes/pipeline.h"

namespace kiln::codegen {

// A sequence on its way: what a row of the tables below works on.
struct Cutting {
  LaunchSequence sequence;
  const dsl::ConstexprValues& config;
  const Lengths& lengths;
  bool is_as_asked = false;  // the config says where; nothing else is cut then

  bool has_several() const { return sequence.steps.size() > 1; }
};

namespace {

using dsl::Op;
using dsl::OpCode;

LaunchSequence sequence_of_one(dsl::Kernel kernel) {
  LaunchSequence sequence;
  sequence.kernel_params = kernel.params.size();
  sequence.steps.push_back({std::move(kernel), "kiln_entry"});
  return sequence;
}

void split_as_asked(Cutting& cut) {
  const int64_t parts = dsl::schedule_option(cut.config, dsl::kSplitK);
  const int64_t workers = dsl::schedule_option(cut.config, dsl::kStreamK);
  cut.is_as_asked =
      workers > 0 ? stream_product(cut.sequence, workers, parts) : parts > 1 && split_product(cut.sequence, parts);
}

bool may_be_long(const Op& op) {
  return op.code == OpCode::kReduce || op.code == OpCode::kTopk || op.code == OpCode::kSort || op.code == OpCode::kScan;
}

// What is cut comes before anything is written. Ops without effects, loads left out, that stand behind a write and need
// nothing that does, come before it.
void put_pure_ops_first(Cutting& cut) {
  if (cut.is_as_asked) return;
  std::vector<Op>& ops = cut.sequence.steps.back().kernel.body.ops;
  const auto writes = std::ranges::find_if(ops, [](const Op& op) { return has_trait(op, dsl::kWrites); });
  if (std::none_of(writes, ops.end(), may_be_long)) return;
  std::set<dsl::ValueId> late;  // what stays behind
  std::vector<Op> first(std::make_move_iterator(ops.begin()), std::make_move_iterator(writes)), rest;
  for (auto op = writes; op != ops.end(); ++op) {
    const bool moves = op->regions.empty() && dsl::info(op->code).has(dsl::kPure) &&
                       std::ranges::none_of(op->operands, [&](dsl::ValueId id) { return late.contains(id); });
    if (!moves) late.insert(op->results.begin(), op->results.end());
    (moves ? first : rest).push_back(std::move(*op));
  }
  first.insert(first.end(), std::make_move_iterator(rest.begin()), std::make_move_iterator(rest.end()));
  ops = std::move(first);
}

// All that is long, one after the other.
void split_long_ops(Cutting& cut) {
  if (cut.is_as_asked) return;
  while (split_reduction(cut.sequence, cut.lengths) || split_topk(cut.sequence, cut.lengths) ||
         split_sort(cut.sequence, cut.lengths) || split_scan(cut.sequence, cut.lengths)) {
  }
}

void join_alike_steps(Cutting& cut) {
  if (cut.is_as_asked) return;
  join_steps(cut.sequence);
  LaunchStep& last = cut.sequence.steps.back();
  if (cut.has_several()) last.kernel = dsl::canonicalise(last.kernel);
}

void cut_stores_of_last(Cutting& cut) {
  if (!cut.is_as_asked && cut.has_several() && cut.sequence.steps.back().chunks == 1) {
    cut_long_stores(cut.sequence, cut.lengths);
  }
}

constexpr CutPass kSplitAsAsked = {"split_product", split_as_asked,
                                   "first: what a config asks for goes before lengths"};
constexpr CutPass kPureOpsFirst = {"pure_ops_first", put_pure_ops_first,
                                   "before split_long_ops, which cuts before a write"};
constexpr CutPass kSplitLongOps = {"split_long_ops", split_long_ops, "repeatedly: what one cut leaves may be long too"};
constexpr CutPass kJoinSteps = {"join_steps", join_alike_steps, "once all cuts are known"};

constexpr CutPass kCpuCuts[] = {kSplitAsAsked, kPureOpsFirst, kSplitLongOps, kJoinSteps};
constexpr CutPass kGpuCuts[] = {
    kSplitAsAsked,
    kPureOpsFirst,
    kSplitLongOps,
    kJoinSteps,
    {"cut_stores", cut_stores_of_last,
     "behind the others: it is for the last step alone, and only where there is another"},
};
// Of sequences of several steps.
constexpr CutPass kGpuBindings[] = {
    {"hand_on_words", [](Cutting& cut) { hand_on_words(cut.sequence); },
     "before steps are apart: it changes both ends"},
    {"bind_steps", [](Cutting& cut) { bind_steps(cut.sequence); }, "last: steps are kernels of their own from here on"},
};

void run_cuts(std::span<const CutPass> passes, Cutting& cut, const PassObserver& observer) {
  for (const CutPass& pass : passes) {
    if (observer.begin) observer.begin(pass.name);
    pass.run(cut);
    if (observer.end) observer.end(pass.name, [&] { return print(cut.sequence); });
  }
}

// What a split writes down plainly.
void simplify(LaunchSequence& sequence, const PassObserver& observer) {
  for (LaunchStep& step : sequence.steps) {
    if (observer.launch) observer.launch(step.entry);
    step.kernel = run_passes(std::move(step.kernel), observer);
  }
}

// The record of failures and the ring of messages are of the first step's launch.
bool tells_host(const dsl::Kernel& kernel) {
  return kernel.options.check_bounds ||
         any_op(kernel, [](const Op& op) { return op.code == OpCode::kPrint || op.code == OpCode::kAssert; });
}

// Operands of products may come by tensor maps, which are of the first step's launch.
bool has_late_products(const LaunchSequence& sequence) {
  return std::any_of(sequence.steps.begin() + 1, sequence.steps.end(), [](const LaunchStep& step) {
    return any_op(step.kernel, [](const Op& op) { return op.code == OpCode::kDot || op.code == OpCode::kDotScaled; });
  });
}

}  // namespace

std::span<const CutPass> cpu_cuts() { return kCpuCuts; }
std::span<const CutPass> gpu_cuts() { return kGpuCuts; }
std::span<const CutPass> gpu_bindings() { return kGpuBindings; }

void name_entries(LaunchSequence& sequence, const std::string& name) {
  std::vector<LaunchStep>& steps = sequence.steps;
  if (steps.back().entry == name) return;  // as it was cut
  for (size_t i = 0; i + 1 < steps.size(); ++i) steps[i].entry = name + "_stage_" + std::to_string(i);
  steps.back().entry = name;
}

std::string print(const LaunchSequence& sequence) {
  std::string out = "// workspace: " + std::to_string(sequence.workspace_bytes) + " bytes\n";
  for (const LaunchStep& step : sequence.steps) {
    out += "// " + step.entry + ", " + std::to_string(step.chunks) + " chunks\n" + dsl::print(step.kernel);
  }
  return out;
}

LaunchSequence make_gpu_launches(dsl::Kernel kernel, const dsl::ConstexprValues& config, const PassObserver& observer) {
  const LaunchSequence whole = sequence_of_one(std::move(kernel));
  if (tells_host(whole.steps[0].kernel)) return whole;
  Cutting cut{whole, config, kGpuLengths};
  run_cuts(kGpuCuts, cut, observer);
  if (!cut.has_several() || has_late_products(cut.sequence)) return whole;
  run_cuts(kGpuBindings, cut, observer);
  simplify(cut.sequence, observer);
  return std::move(cut.sequence);
}

LaunchSequence make_launches(dsl::Kernel kernel, const dsl::ConstexprValues& config, const PassObserver& observer) {
  const LaunchSequence whole = sequence_of_one(std::move(kernel));
  // Checked accesses are reported by the ops of the kernel as it was written.
  if (whole.steps[0].kernel.options.check_bounds) return whole;
  Cutting cut{whole, config, kCpuLengths};
  run_cuts(kCpuCuts, cut, observer);
  if (cut.is_as_asked) simplify(cut.sequence, observer);
  return cut.has_several() ? std::move(cut.sequence) : whole;
}

}  // namespace kiln::codegen
