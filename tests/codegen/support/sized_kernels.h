// Kernels of any depth, length or width, for what backends refuse or make of them.
#pragma once

#include "differential.h"
#include "kiln/codegen/compile.h"

namespace kiln::test {

// So many loops inside each other, each of which adds what the next one carries.
inline std::string nest_of(const std::string& loop, int depth) {
  TextKernel k("%p: ptr<f32>, %n: i32");
  k.line("%zero = constant {value = 0, type = i32}\n  %one = constant {value = 1, type = i32}");
  k.line("%start = load " + k.pointers("%p", {64}) + "\n  %b0 = add %start, %start");
  for (int i = 1; i <= depth; ++i) {
    const std::string n = std::to_string(i), carried = " = %b" + std::to_string(i - 1);
    if (loop == "for") {
      k.line("%r" + n + " = for %i" + n + " = %zero to %n step %one carry (%b" + n + carried + ") {");
    } else {
      k.line("%r" + n + ", %j" + n + " = while carry (%w" + n + carried + ", %k" + n + " = %zero) {");
      k.line("%c" + n + " = cmp %k" + n + ", %n {pred = lt}\n  yield %c" + n + "\n} do (%b" + n + ", %l" + n + ") {");
      k.line("%m" + n + " = add %l" + n + ", %one");
    }
  }
  std::string inner = k.op("add %b" + std::to_string(depth) + ", %start");
  for (int i = depth; i >= 1; --i) {
    k.line("yield " + inner + (loop == "for" ? "" : ", %m" + std::to_string(i)) + "\n}");
    inner = "%r" + std::to_string(i);
  }
  k.line("store " + k.pointers("%p", {64}) + ", " + inner);
  return k.text();
}

// A tile of f32 that is loaded as a whole before any of it can be stored.
inline dsl::Kernel normalised(int64_t rows, int64_t columns) {
  const TextKernel::Shape shape = {rows, columns};
  TextKernel k("%p: ptr<f32>");
  const std::string x = k.op("load " + k.pointers("%p", shape));
  const std::string most = k.op("expand_dims " + k.op("reduce " + x + " {kind = max, axis = 1}") + " {axis = 1}");
  const std::string spread = k.op("broadcast " + most + " {shape = " + TextKernel::list(shape) + "}");
  k.line("store " + k.pointers("%p", shape) + ", " + k.op("sub " + x + ", " + spread));
  return parse_kernel(k.text());
}

// Kernels of one tile of so many elements, each of another kind, by name.
inline std::vector<std::pair<std::string, dsl::Kernel>> of_one_tile(int64_t rows, int64_t columns) {
  const TextKernel::Shape line = {rows * columns}, square = {rows, columns};
  TextKernel add("%p: ptr<f32>, %q: ptr<f32>"), histogram("%p: ptr<i32>, %q: ptr<i32>"),
      philox("%p: ptr<u32>, %seed: u64"), transpose("%p: ptr<f32>, %q: ptr<f32>");
  add.line(
      "store " + add.pointers("%q", line) + ", " +
      add.op("add " + add.op("load " + add.pointers("%p", line)) + ", " + add.op("load " + add.pointers("%q", line))));
  histogram.line("store " + histogram.pointers("%q", {256}) + ", " +
                 histogram.op("histogram " + histogram.op("load " + histogram.pointers("%p", line)) + " {bins = 256}"));
  const std::string offset = philox.op("cast " + philox.along(line, 0) + " {to = u64}");
  philox.line("%a, %b, %c, %d = philox " + philox.splat("%seed", line) + ", " + offset);
  philox.line("store " + philox.pointers("%p", line) + ", %a");
  const std::string x = transpose.op("load " + transpose.pointers("%p", square));
  transpose.line("store " + transpose.pointers("%q", {columns, rows}) + ", " +
                 transpose.op("permute " + x + " {order = [1, 0]}"));
  return {{"add", parse_kernel(add.text())},
          {"histogram", parse_kernel(histogram.text())},
          {"philox", parse_kernel(philox.text())},
          {"transpose", parse_kernel(transpose.text())}};
}

// Stores 1 behind the last of so many pointers; with a check of all accesses to them or without.
inline dsl::Kernel of_pointers(int64_t count, bool checked = false) {
  std::string params;
  for (int64_t i = 0; i < count; ++i) params += (i > 0 ? ", %p" : "%p") + std::to_string(i) + ": ptr<f32>";
  TextKernel k(params);
  k.line("store %p" + std::to_string(count - 1) + ", " + k.constant("1.0", "f32"));
  dsl::Kernel kernel = parse_kernel(k.text());
  kernel.options.check_bounds = checked;
  return kernel;
}

// Sums of so many tiles, each loaded from another place: a filter without a loop.
inline dsl::Kernel filter(int64_t taps, int64_t columns) {
  TextKernel k("%p: ptr<f32>, %q: ptr<f32>");
  std::string sum = k.fill("0.0", "f32", {columns});
  for (int64_t i = 0; i < taps; ++i) {
    sum = k.op("add " + sum + ", " + k.op("load " + k.pointers("%p", {columns}, 37 * i)));
  }
  k.line("store " + k.pointers("%q", {columns}) + ", " + sum);
  return parse_kernel(k.text());
}

// The same with a weight to each, and nothing below 0.
inline dsl::Kernel weighted_filter(int64_t taps, int64_t columns) {
  TextKernel k("%p: ptr<f32>, %w: ptr<f32>, %q: ptr<f32>");
  const std::string zero = k.fill("0.0", "f32", {columns});
  std::string sum = zero;
  for (int64_t i = 0; i < taps; ++i) {
    const std::string weight = k.op("load " + k.pointers("%w", {columns}, columns * i));
    const std::string x = k.op("max " + k.op("load " + k.pointers("%p", {columns}, 37 * i)) + ", " + zero);
    sum = k.op("fma " + x + ", " + weight + ", " + sum);
  }
  k.line("store " + k.pointers("%q", {columns}) + ", " + sum);
  return parse_kernel(k.text());
}

// Sums down the columns of so many arrays, a block of rows after the other; of one row each the sum is of tiles.
inline dsl::Kernel column_sums(int64_t arrays, int64_t rows, int64_t columns) {
  TextKernel k("%p: ptr<f32>, %q: ptr<f32>, %n: i32");
  k.line("%zero = constant {value = 0, type = i32}\n  %one = constant {value = 1, type = i32}");
  const std::string none = k.fill("0.0", "f32", {columns});
  std::string carried, results, yielded;
  for (int64_t i = 0; i < arrays; ++i) {
    const std::string n = std::to_string(i), comma = i > 0 ? ", " : "";
    carried += comma + "%s" + n + " = " + none;
    results += comma + "%r" + n;
  }
  k.line(results + " = for %i = %zero to %n step %one carry (" + carried + ") {");
  for (int64_t i = 0; i < arrays; ++i) {
    const TextKernel::Shape shape = rows == 1 ? TextKernel::Shape{columns} : TextKernel::Shape{rows, columns};
    const std::string x = k.op("load " + k.pointers("%p", shape, rows * columns * i));
    const std::string sum = rows == 1 ? x : k.op("reduce " + x + " {kind = sum, axis = 0}");
    yielded += (i > 0 ? ", " : "") + k.op("add %s" + std::to_string(i) + ", " + sum);
  }
  k.line("yield " + yielded + "\n}");
  for (int64_t i = 0; i < arrays; ++i) {
    k.line("store " + k.pointers("%q", {columns}, columns * i) + ", %r" + std::to_string(i));
  }
  return parse_kernel(k.text());
}

inline std::string code_of(const dsl::Kernel& kernel, const dsl::ConstexprValues& config, const std::string& target,
                           const std::string& emit = "asm") {
  const auto artifact = compile(kernel, config, {}, target, emit);
  EXPECT_TRUE(artifact.ok()) << artifact.error().message;
  if (!artifact) return "";
  return {reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size()};
}

// The phases that a compile began (kiln/codegen/compile.h), and how it failed.
struct Tried {
  std::vector<std::string> phases;
  std::string refusal;  // "" where it compiles
};
inline Tried tried(const dsl::Kernel& kernel, const dsl::ConstexprValues& config, const std::string& target) {
  initialise();
  Tried out;
  const auto request = dsl::encode_request({kernel, target, config, {}, "asm"});
  EXPECT_TRUE(request.ok()) << request.error().message;
  if (!request) return out;
  const auto made = codegen::compile(request->canonical, request->debug,
                                     [&](std::string_view phase) { out.phases.emplace_back(phase); });
  if (!made) out.refusal = made.error().message;
  return out;
}

// The error, or "" where it compiles.
inline std::string refusal_of(const dsl::Kernel& kernel, const dsl::ConstexprValues& config,
                              const std::string& target) {
  const auto artifact = compile(kernel, config, {}, target, "asm");
  return artifact ? "" : artifact.error().message;
}

}  // namespace kiln::test
