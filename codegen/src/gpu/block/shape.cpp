#include "gpu/block/shape.h"

#include <algorithm>

#include "gpu/block/held_tiles.h"
#include "gpu/dot/dot_layouts.h"
#include "gpu/passes/block_passes.h"
#include "gpu/pipeline/cluster.h"
#include "gpu/pipeline/persistent.h"
#include "gpu/pipeline/producer_warps.h"
#include "kiln/dsl/verify.h"

namespace kiln::codegen::gpu {
namespace {

// `warps` of a block would do; 0: none would, and `otherwise` says what must change.
Error refusal(const dsl::Kernel& kernel, const dsl::Op& op, const std::string& problem, int warps,
              const std::string& otherwise) {
  const std::string advice =
      warps > 0 ? "`num_warps = " + std::to_string(warps) + "` would do" : "no `num_warps` would do: " + otherwise;
  return error(ErrorCode::kCompileFailed, dsl::diagnostic(kernel, op.loc, problem + "; " + advice));
}

Error refusal(const dsl::Kernel& kernel, const CrampedProduct& cramped, const TargetInfo& target,
              const BlockShape& block, const std::string& processor) {
  const std::string problem = "target `" + processor + "`: dot: " + std::to_string(block.warps) +
                              " warps leave a thread " + std::to_string(target.most_registers(block.threads())) +
                              " registers, too few for the sums of a product";
  return refusal(kernel, *cramped.dot, problem, cramped.warps, "its columns must be fewer");
}

Error refusal(const dsl::Kernel& kernel, const OverfullTiles& overfull, const TargetInfo& target,
              const BlockShape& block, const std::string& processor) {
  const dsl::Op& op = *overfull.held.op;
  const std::string problem = "target `" + processor + "`: " + dsl::info(op.code).name + ": a thread would hold " +
                              std::to_string(overfull.held.words) + " registers of tiles, and has " +
                              std::to_string(target.most_registers(block.threads())) + " in a block of " +
                              std::to_string(block.warps) + " warps";
  return refusal(kernel, op, problem, overfull.warps, "the tiles of a program must be smaller");
}

BlockShape block_of(const LaunchShape& launch, const TargetInfo& target) {
  BlockShape block{target.lanes(), launch.warps, launch.programs};
  block.persistent = launch.persistent && target.bulk_engine() && launch.programs == 1;
  block.queued = launch.queued && block.persistent;
  if (block.persistent && block.warps == kConsumerGroupWarps) block.consumer_groups = launch.consumer_groups;
  block.most_stages = launch.most_stages;
  return block;
}

LaunchShape without_persistence(LaunchShape launch) {
  launch.persistent = launch.queued = false;
  return launch;
}

int most_stages(const ShapedKernel& shaped) {
  int out = 0;
  for (const auto& [loop, pipeline] : shaped.placement.pipelines) out = std::max(out, pipeline.asked_stages());
  return out;
}

LaunchShape with_warps(LaunchShape launch, int warps) {
  launch.warps = warps;
  launch.programs = 1;
  return launch;
}

LaunchShape with_fewer_stages(const ShapedKernel& shaped) {
  LaunchShape launch = shaped.launch;
  launch.most_stages = most_stages(shaped) - 1;
  return launch;
}

// Where tiles live, and the kernel for it.
void place_tiles(ShapedKernel& shaped, const TargetInfo& target, const PassObserver& observer) {
  const auto place_them = [&] {
    shaped.info = axis_info(*shaped.kernel, Wrap::kIndex);
    shaped.placement = place(*shaped.kernel, target, shaped.block, shaped.info);
  };
  place_them();
  if (!shaped.placement.pipelines.empty() || !holds_too_much(*shaped.kernel, shaped.placement)) return;
  shaped.kernel = std::make_shared<const dsl::Kernel>(run_passes(relieving_passes(), *shaped.kernel, observer));
  place_them();
}

// What blocks do beside a program's ops, as far as the kernel is fit for it. What it is not fit for, and so is to be
// asked for no longer.
std::optional<LaunchShape> specialise(ShapedKernel& shaped, const TargetInfo& target) {
  const LaunchShape& launch = shaped.launch;
  const dsl::Kernel& kernel = *shaped.kernel;
  BlockShape& block = shaped.block;
  if (launch.specialise && target.bulk_engine()) {
    shaped.copied = loop_for_producer_warps(kernel, shaped.placement);
  }
  if (shaped.copied) block.producers = target.bulk_engine()->producer_warps(block);
  if (!block.persistent) return std::nullopt;
  if (block.producers == 0) return without_persistence(launch);
  Pipeline& pipeline = shaped.placement.pipelines.at(shaped.copied);
  if (block.consumer_groups > 1 && !is_fit_for_consumer_groups(kernel, *shaped.copied, shaped.info, pipeline)) {
    LaunchShape other = launch;
    other.consumer_groups = 1;
    return other;
  }
  const bool in_cluster = launch.cluster > 1 && target.bulk_engine()->most_of_cluster() > 1 &&
                          plan_cluster(kernel, *shaped.copied, shaped.info, pipeline);
  if (in_cluster) block.cluster = launch.cluster;
  if (!block.queued) {
    LinearForms forms(kernel, shaped.info);
    block.balanced = !is_alike_in_all_programs(*shaped.copied, forms);
  }
  return std::nullopt;
}

}  // namespace

Result<ShapedKernel> choose_shape(const dsl::Kernel& kernel, const TargetInfo& target, const LaunchShape& launch,
                                  const std::string& processor, const PassObserver& observer) {
  // All of them unpack e2m1.
  const dsl::Kernel common = multiplies_packed(kernel, target) ? kernel : run_passes(gpu_passes(), kernel, observer);
  ShapedKernel shaped{.launch = launch, .block = {}, .kernel = {}, .info = {}, .placement = {}};
  for (;;) {
    shaped = {
        .launch = shaped.launch, .block = block_of(shaped.launch, target), .kernel = {}, .info = {}, .placement = {}};
    const BlockFacts facts{target, shaped.block};
    shaped.kernel = std::make_shared<const dsl::Kernel>(run_passes(block_passes(), common, observer, facts));
    if (const auto cramped = cramped_product(*shaped.kernel, target, shaped.block)) {
      if (launch.is_given || cramped->warps == 0) {
        return refusal(*shaped.kernel, *cramped, target, shaped.block, processor);
      }
      shaped.launch = with_warps(shaped.launch, cramped->warps);
      continue;
    }
    place_tiles(shaped, target, observer);
    if (const auto overfull = overfull_tiles(*shaped.kernel, shaped.placement, target, shaped.block)) {
      if (launch.is_given || overfull->warps == 0) {
        return refusal(*shaped.kernel, *overfull, target, shaped.block, processor);
      }
      shaped.launch = with_warps(shaped.launch, overfull->warps);
      continue;
    }
    const auto other = specialise(shaped, target);
    if (!other) return shaped;
    shaped.launch = *other;
  }
}

Result<std::optional<LaunchShape>> smaller_shape(const ShapedKernel& shaped, int64_t shared_bytes,
                                                 const TargetInfo& target, const std::string& processor) {
  const BlockShape& block = shaped.block;
  const int64_t most = target.lane_facts().shared_bytes;
  // Several programs in a block are for those that are small.
  if (block.programs > 1 && shared_bytes > most / 4) {
    LaunchShape other = without_persistence(shaped.launch);
    other.programs = 1;
    return std::optional(other);
  }
  if (shared_bytes <= most) return std::optional<LaunchShape>();
  if (block.consumer_groups > 1 && most_stages(shaped) > 2) return std::optional(with_fewer_stages(shaped));
  if (block.persistent) return std::optional(without_persistence(shaped.launch));
  // What stands beside the loops needs more than their stages left to it.
  if (!shaped.placement.pipelines.empty()) return std::optional(with_fewer_stages(shaped));
  return error(ErrorCode::kCompileFailed, "kernel `" + shaped.kernel->name + "` needs " + std::to_string(shared_bytes) +
                                              " bytes of shared memory a block; " + processor + " has " +
                                              std::to_string(most));
}

}  // namespace kiln::codegen::gpu
