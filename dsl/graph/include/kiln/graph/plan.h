// What a graph is compiled to: tile kernels, their launches in order, and where everything lies in memory. One plan is
// for all sizes in the declared ranges of the dims: it has no pointer and no size of an example in it.
//
// Planner (a worker) and runner (a client) agree on it here; docs/reference/graph-plan.md is its prose.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kiln/graph/ir.h"

namespace kiln::graph {

// A kernel of a plan: what a request for it says beside the plan's target.
struct PlannedKernel {
  dsl::Kernel kernel;
  dsl::ConstexprValues constexprs;  // those that the planner chose; the others take the kernel's defaults
  // Of a plan that was read without bodies: the kernel has no ops, and these are the bytes of encode_kernel() that
  // have.
  std::vector<std::byte> encoded = {};
  bool has_loop = false;  // the same of what `encoded` has; else the kernel says it
  // The user's own code, of which the kernel is the declaration: the request is one for a custom kernel.
  std::optional<dsl::CustomCode> code = {};
};
// As bytes, the same for equal ones.
std::vector<std::byte> code_bytes(const dsl::CustomCode& code);

// Memory that launches read and write. Sizes and offsets in bytes, over the plan's dims.
struct PlannedBuffer {
  enum class Home : uint8_t {
    kInput,     // `index` of the caller's inputs
    kOutput,    // `index` of the outputs
    kArena,     // at `offset` of the arena, a multiple of kArenaAlignment
    kConstant,  // `index` of Plan::constants
  };
  Home home = Home::kArena;
  uint32_t index = 0;
  Expr offset = {};
  Expr bytes = {};
};
inline constexpr int64_t kArenaAlignment = 64;

// What stands behind each parameter of the kernel, in order.
struct PlannedArgument {
  enum class Kind : uint8_t { kBuffer, kScalar };
  Kind kind = Kind::kBuffer;
  uint32_t buffer = 0;
  Expr offset = {};  // kBuffer: bytes into the buffer
  Expr scalar = {};  // kScalar: of an int parameter
};

struct PlannedLaunch {
  uint32_t kernel = 0;
  std::vector<PlannedArgument> arguments;
  std::string name;   // of what it computes, for people: "softmax", "linear+gelu"
  std::string place;  // "file:line:column" of the first node in it; may be empty
  // Bytes that it reads and writes, each once.
  Expr moved;
  // What is computed in it, as numbers that PlanOptions::apart takes.
  std::vector<uint32_t> ops = {};
};

// Launches that run again and again, as often as the sizes say. Loops may lie within others.
struct PlannedLoop {
  uint32_t first = 0, count = 0;  // launches
  Expr length;
  // Which pass it is, from 0: the expressions of arguments have it behind the dims, at dims.size() + counter.
  uint32_t counter = 0;
};
inline constexpr uint32_t kMostCounters = 8;

struct PlannedTensor {
  std::string name;
  TensorType type;
};

struct Plan {
  std::string name;    // the graph's
  std::string target;  // resolved, as in requests
  std::vector<DimInfo> dims;
  std::vector<PlannedTensor> inputs, outputs;  // contiguous, row-major
  // By output: the input whose memory it may share, because that is donated to it and all reads of it come before; or
  // kNone.
  std::vector<uint32_t> in_place;
  std::vector<PlannedKernel> kernels;
  std::vector<PlannedBuffer> buffers;
  std::vector<PlannedLaunch> launches;  // one after the other
  std::vector<PlannedLoop> loops;       // by their first launch; of those that begin at one the outer ones first
  std::vector<std::vector<std::byte>> constants;
  Expr arena_bytes;
  // What was decided and why, in order, a line each, for `explain`.
  std::vector<std::string> log;
};

// By kernel, the facts that its code is first asked for with: arrays are aligned to 16 bytes which all launches find so
// in aligned buffers. The arena and the constants are aligned; where an array of the caller's is not, a runner asks for
// the kernel without facts. Code of the user's own has none.
std::vector<dsl::Facts> facts_of(const Plan& plan);

// `emit` of the metadata of an artifact whose code is a plan.
inline constexpr const char* kPlanEmit = "plan";

// As CBOR in deterministic encoding. Survives any bytes; the kernels come back verified, and every number is in range.
std::vector<std::byte> encode_plan(const Plan& plan);
Result<Plan> decode_plan(std::span<const std::byte> bytes);
// The same without the ops of kernels, which who asks for code by key has no need of and which are most of the time:
// they are walked through, must be in deterministic encoding, and are not verified. Kernels that name source lines at
// run time have them all the same.
Result<Plan> decode_plan_heads(std::span<const std::byte> bytes);

}  // namespace kiln::graph
