#include "compile_any.h"

#include <chrono>

#include "kiln/dsl/custom_kernel.h"
#include "kiln/dsl/float_mode.h"
#include "kiln/graph/plan_request.h"
#include "kiln/planner/plan_graph.h"

namespace kiln::worker {
namespace {

using Clock = std::chrono::steady_clock;

int64_t microseconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration_cast<std::chrono::microseconds>(to - from).count();
}

Result<Artifact> plan(std::span<const std::byte> canonical, std::span<const std::byte> debug,
                      const codegen::Progress& progress) {
  const dsl::FloatMode mode;
  const auto begun = Clock::now();
  progress("decode");
  auto request = graph::decode_plan_request(canonical, debug);
  if (!request) return request.error();
  const auto decoded = Clock::now();
  progress("plan");
  auto planned = planner::plan_graph(*request);
  if (!planned) return planned.error();
  const auto made = Clock::now();
  progress("encode");
  Artifact out;
  out.code = graph::encode_plan(*planned);
  out.metadata.kernel = planned->name;
  out.metadata.target = request->target;
  out.metadata.emit = graph::kPlanEmit;
  out.metadata.code_bytes = static_cast<int64_t>(out.code.size());
  const auto done = Clock::now();
  out.metadata.phases_us = {{"decode", microseconds(begun, decoded)},
                            {"plan", microseconds(decoded, made)},
                            {"encode", microseconds(made, done)},
                            {"total", microseconds(begun, done)}};
  return out;
}

}  // namespace

Result<Artifact> compile_any(std::span<const std::byte> canonical, std::span<const std::byte> debug,
                             const codegen::Progress& progress) {
  if (graph::is_plan_request(canonical)) return plan(canonical, debug, progress);
  if (dsl::is_custom_request(canonical)) return codegen::compile_custom(canonical, debug, progress);
  return codegen::compile(canonical, debug, progress);
}

}  // namespace kiln::worker
