// A plan for sizes: all of its expressions as numbers. Made once for the sizes of a run, and kept for the next of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kiln/dsl/result.h"
#include "kiln/graph/plan.h"
#include "kiln/graph/sizes.h"

namespace kiln::client {

class PreparedPlans;

struct SizedPlan {
  struct Buffer {
    uint64_t offset = 0;  // in the arena
    uint64_t bytes = 0;
  };
  struct Argument {
    uint32_t buffer = graph::kNone;  // kNone: a scalar
    uint64_t value = 0;              // offset in the buffer, or the scalar's bits
    int64_t extent = 0;              // elements from there to the buffer's end
    // Of a launch within loops: what stands for `value`, over their counters. Then at() says the rest.
    std::optional<graph::Expr> varying = {};
    uint64_t buffer_bytes = 0;
    dsl::ElementType element = dsl::ElementType::kI1;
  };
  struct Tensor {
    std::vector<int64_t> shape;
    uint64_t bytes = 0;
  };

  std::vector<int64_t> sizes;  // what it was made for: size_key()
  std::vector<Tensor> inputs, outputs;
  std::vector<Buffer> buffers;
  std::vector<Argument> arguments;          // of all launches, one after the other
  std::vector<uint32_t> argument_end;       // by launch
  std::vector<int64_t> loop_lengths;        // by Plan::loops
  std::vector<uint64_t> moved_bytes;        // by launch
  std::shared_ptr<PreparedPlans> prepared;  // for CPUs
  mutable std::atomic<bool> tuner_was_asked{false};
  uint64_t arena_bytes = 0;
  uint64_t output_bytes = 0;  // of all together

  // An argument in a pass: counters stand behind the dims in `dims`.
  static Result<Argument> at(const Argument& argument, const dsl::Bindings& dims);

  std::span<const Argument> arguments_of(size_t launch) const {
    const uint32_t begin = launch == 0 ? 0 : argument_end[launch - 1];
    return std::span(arguments).subspan(begin, argument_end[launch] - begin);
  }
};

// Extents of all inputs, then a size a dim, -1 where none is given: equal keys are equal sizes.
void size_key(const graph::Plan& plan, std::span<const graph::GivenTensor> inputs,
              const std::map<std::string, int64_t>& sizes, std::vector<int64_t>& key);

// "launch 3, `softmax` (model.cpp:12:3)"
std::string launch_text(const graph::Plan& plan, size_t launch);

// `constants`: the bytes of each. Errors are the caller's, of inputs and sizes, or those of a plan that is wrong: a
// buffer outside of its memory.
Result<std::shared_ptr<const SizedPlan>> size_plan(const graph::Plan& plan, std::span<const uint64_t> constants,
                                                   std::span<const graph::GivenTensor> inputs,
                                                   const std::map<std::string, int64_t>& sizes);

}  // namespace kiln::client
