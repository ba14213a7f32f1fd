// A plan by hand, for tests of its form and of what runs it: it has every kind of buffer, a donated input, a constant,
// a scalar and an offset into a buffer.
//
//   x f32[n, m], state f32[n, m]  →  y = 2·x + (state + 2·x),  next = state + 2·x
//   last f32[m]: the last row of y again
#pragma once

#include <span>

#include "kiln/dsl/kernels.h"
#include "kiln/graph/plan.h"

namespace kiln::planned {

// out[i] = x[i]·factor[0]
inline dsl::Kernel scale_kernel() {
  using namespace dsl::lang;
  static const auto def = kernel("scale", {"x", "factor", "out", "n", "BLOCK=64"},
                                 [](Ptr<const f32> x, Ptr<const f32> factor, Ptr<f32> out, i32 n, Const BLOCK) {
                                   grid(cdiv(n, BLOCK));
                                   const Value start = program_id(0) * BLOCK;
                                   const Value scaled = tile(x, {n}).load({start}, {BLOCK}) * load(factor);
                                   tile(out, {n}).store({start}, scaled);
                                 });
  return *def.ir();
}

inline graph::Plan hand_plan(const std::string& target = "interp") {
  using namespace graph;
  using Home = PlannedBuffer::Home;
  using Kind = PlannedArgument::Kind;
  const Expr n = Expr::constexpr_ref(0), m = Expr::constexpr_ref(1), bytes = 4 * n * m;
  const Expr rounded = Expr::apply(dsl::AtomKind::kDiv, bytes + 63, 64) * 64;
  const TensorType matrix{ElementType::kF32, {n, m}};
  Plan plan;
  plan.name = "by_hand";
  plan.target = target;
  plan.dims = {{"n", 1, 100, 1}, {"m", 1, 64, 4}};
  plan.inputs = {{"x", matrix}, {"state", matrix}};
  plan.outputs = {{"y", matrix}, {"next", matrix}, {"last", {ElementType::kF32, {m}}}};
  plan.in_place = {kNone, 1, kNone};
  plan.kernels = {{scale_kernel(), {{"BLOCK", 16}}}, {*dsl::lang::kernels::vector_add().ir(), {{"BLOCK", 32}}}};
  for (const float value : {2.0f, 1.0f}) {
    const auto bytes_of = std::as_bytes(std::span(&value, 1));
    plan.constants.emplace_back(bytes_of.begin(), bytes_of.end());
  }
  plan.buffers = {{Home::kInput, 0, {}, bytes},          {Home::kInput, 1, {}, bytes},  {Home::kOutput, 0, {}, bytes},
                  {Home::kOutput, 1, {}, bytes},         {Home::kOutput, 2, {}, 4 * m}, {Home::kArena, 0, 0, bytes},
                  {Home::kArena, 0, rounded, 4 * n * m}, {Home::kConstant, 0, {}, 4},   {Home::kConstant, 1, {}, 4}};
  plan.arena_bytes = 2 * rounded;
  const auto buffer = [](uint32_t number, Expr offset = 0) {
    return PlannedArgument{Kind::kBuffer, number, std::move(offset), {}};
  };
  const auto scalar = [](Expr value) { return PlannedArgument{Kind::kScalar, 0, {}, std::move(value)}; };
  plan.launches = {
      {0, {buffer(0), buffer(7), buffer(5), scalar(n * m)}, "scale", "model.cpp:3:9", 2 * bytes + 4},
      {1, {buffer(1), buffer(5), buffer(3), scalar(n * m)}, "add", "model.cpp:4:9", 3 * bytes},
      {1, {buffer(5), buffer(3), buffer(6), scalar(n * m)}, "add", "model.cpp:5:9", 3 * bytes},
      {0, {buffer(6), buffer(8), buffer(2), scalar(n * m)}, "copy", "", 2 * bytes},
      {0, {buffer(6, 4 * (n - 1) * m), buffer(8), buffer(4), scalar(m)}, "copy", "model.cpp:6:9", 8 * m, {2, 5}},
  };
  plan.log = {"scale: alone, because it is by hand", "add: the same"};
  return plan;
}

}  // namespace kiln::planned
