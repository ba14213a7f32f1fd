// atomic_rmw and atomic_cas, compiled against the interpreter: kinds, types, masks, shared addresses, ranks; and many
// programs at one address on several threads.
#include <array>
#include <cmath>
#include <map>

#include "cuda_device.h"
#include "differential.h"
#include "kiln/dsl/types.h"

namespace kiln::test {
namespace {

using dsl::ElementType;

std::string name_of(ElementType type) { return std::string(dsl::info(type).name); }

const std::vector<ElementType> kInts = {ElementType::kI8, ElementType::kI16, ElementType::kI32, ElementType::kI64,
                                        ElementType::kU8, ElementType::kU16, ElementType::kU32, ElementType::kU64};
const std::vector<ElementType> kFloats = {ElementType::kF16, ElementType::kBF16,   ElementType::kF32,
                                          ElementType::kF64, ElementType::kF8E4M3, ElementType::kF8E5M2};

// p[idx[i]] op= x[i] for i < n of `count` lanes, the old values into old[i].
std::string scatter_text(const std::string& type, int64_t count, const std::string& atomic, bool keeps_old) {
  TextKernel k("%p: ptr<" + type + ">, %idx: ptr<i32> readonly, %x: ptr<" + type + "> readonly, %old: ptr<" + type +
               ">, %n: i32");
  const TextKernel::Shape shape = {count};
  const std::string mask = k.mask(shape, {"%n"});
  const std::string index = k.op("load " + k.pointers("%idx", shape) + ", " + mask);
  const std::string value = k.op("load " + k.pointers("%x", shape) + ", " + mask);
  const std::string where = k.op("addptr " + k.splat("%p", shape) + ", " + index);
  std::string operands = where + ", " + value;
  if (atomic.starts_with("atomic_cas"))
    operands = where + ", " + value + ", " + k.op("load " + k.pointers("%x", shape, 1) + ", " + mask);
  const size_t space = atomic.find(' ');
  const std::string old = k.op(atomic.substr(0, space) + " " + operands + ", " + mask + atomic.substr(space));
  if (keeps_old) k.line("store " + k.pointers("%old", shape) + ", " + old);
  return k.text();
}

std::vector<int32_t> some_indices(int64_t count, int32_t places) {
  std::vector<int32_t> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(static_cast<int32_t>((i * i + 3 * i) % places));
  return out;
}

void expect_scatter(ElementType type, int64_t count, const std::string& atomic, bool keeps_old,
                    std::vector<std::string> targets = all_targets()) {
  SCOPED_TRACE(name_of(type) + " " + atomic);
  const auto n = static_cast<size_t>(count);
  expect_same(scatter_text(name_of(type), count, atomic, keeps_old),
              {{random_buffer(type, 16, 1), buffer(some_indices(count, 13)), random_buffer(type, n + 1, 2),
                random_buffer(type, n, 3), int_scalar(count - count / 4)},
               kExact,
               std::move(targets)});
}

// Several lanes have one address, and CPUs take them in order.
TEST(Atomic, EveryKindOfEveryIntWithAndWithoutItsOldValue) {
  if (!wants_targets("cpu") || on_cuda()) GTEST_SKIP() << "lanes of one address come in any order on GPUs";
  for (ElementType type : kInts) {
    for (const char* kind : {"add", "min", "max", "and", "or", "xor", "xchg"}) {
      expect_scatter(type, 77, std::string("atomic_rmw {kind = ") + kind + "}", true, {""});
    }
    expect_scatter(type, 77, "atomic_rmw {kind = add}", false, {""});
  }
}

TEST(Atomic, EveryKindOfEveryFloatByItsOwnRules) {
  if (!wants_targets("cpu") || on_cuda()) GTEST_SKIP() << "lanes of one address come in any order on GPUs";
  for (ElementType type : kFloats) {
    for (const char* kind : {"add", "min", "max", "xchg"}) {
      expect_scatter(type, 77, std::string("atomic_rmw {kind = ") + kind + "}", true, {""});
    }
  }
}

TEST(Atomic, EveryTargetHasThem) {
  for (ElementType type : {ElementType::kI32, ElementType::kU8, ElementType::kF32, ElementType::kBF16}) {
    expect_scatter(type, 40, "atomic_rmw {kind = max}", true, cpu_targets());
    expect_scatter(type, 40, "atomic_rmw {kind = max}", false);
    expect_scatter(type, 40, "atomic_rmw {kind = add}", false, cpu_targets());
    expect_scatter(type, 40, "atomic_cas {order = acq_rel}", true, cpu_targets());
  }
}

// On GPUs lanes of one address come in any order, so each has its own here.
TEST(Atomic, EveryKindOfEveryTypeOnGpus) {
  constexpr int64_t kCount = 128;
  std::vector<int32_t> places;
  for (int64_t i = 0; i < kCount; ++i) places.push_back(static_cast<int32_t>(i * 37 % kCount));
  std::vector<ElementType> types = kInts;
  types.insert(types.end(), kFloats.begin(), kFloats.end());
  size_t next = 0;
  for (ElementType type : types) {
    for (const char* kind : {"add", "min", "max", "xchg", "and", "or", "xor", "cas"}) {
      const std::string name = kind;
      if (dsl::is_float(type) && (name == "and" || name == "or" || name == "xor")) continue;
      const std::string atomic = name == "cas" ? "atomic_cas {order = acq_rel}" : "atomic_rmw {kind = " + name + "}";
      SCOPED_TRACE(name_of(type) + " " + atomic);
      std::string target = std::array{"gpu:warps=4", "gpu:warps=1", "gpu:warps=8", "gpu:warps=2,lanes=64"}[next++ % 4];
      if (on_cuda()) target.clear();
      // NVIDIA's f32 add flushes subnormals (docs/reference/ops.md).
      const bool specials = !(on_cuda() && type == ElementType::kF32 && name == "add");
      expect_same(
          scatter_text(name_of(type), kCount, atomic, next % 3 != 0),
          {{random_buffer(type, kCount, 1, specials), buffer(places), random_buffer(type, kCount + 1, 2, specials),
            random_buffer(type, kCount, 3), int_scalar(kCount - 9)},
           kExact,
           {target}});
    }
  }
}

TEST(Atomic, OrdersAreHintsOfOneResult) {
  for (const char* order : {"acq_rel", "relaxed", "acquire", "release"}) {
    const std::string attributes = std::string("order = ") + order + ", scope = system}";
    expect_scatter(ElementType::kI32, 20, "atomic_rmw {kind = add, " + attributes, true, {""});
    expect_scatter(ElementType::kF32, 20, "atomic_rmw {kind = add, " + attributes, true, {""});
    expect_scatter(ElementType::kI64, 20, "atomic_cas {" + attributes, true, {""});
  }
}

TEST(Atomic, MinAndMaxOrderZerosAndPropagateNan) {
  for (const char* kind : {"min", "max"}) {
    TextKernel k("%p: ptr<f32>, %x: ptr<f32> readonly");
    const TextKernel::Shape shape = {16};
    const std::string value = k.op("load " + k.pointers("%x", shape));
    k.op("atomic_rmw " + k.pointers("%p", shape) + ", " + value + " {kind = " + kind + "}");
    const float nan = std::nanf("");
    const std::vector<float> a = {0.0f, -0.0f, 0.0f, -0.0f, nan, 1, nan, INFINITY, -INFINITY, 1, 2, -1, -2, 0, nan, 3};
    const std::vector<float> b = {-0.0f, 0.0f, 0.0f, -0.0f, 1, nan, nan, -INFINITY, INFINITY, 2, 1, -2, -1, nan, 0, 3};
    expect_same(k.text(), {{buffer(a), buffer(b)}, kExact});
  }
}

TEST(Atomic, CompareAndSwapComparesBits) {
  TextKernel k("%p: ptr<f32>, %e: ptr<f32> readonly, %old: ptr<f32>");
  const TextKernel::Shape shape = {6};
  const std::string expected = k.op("load " + k.pointers("%e", shape));
  const std::string old =
      k.op("atomic_cas " + k.pointers("%p", shape) + ", " + expected + ", " + k.fill("7", "f32", shape));
  k.line("store " + k.pointers("%old", shape) + ", " + old);
  const float nan = std::nanf("");
  expect_same(k.text(), {{buffer<float>({nan, 0.0f, -0.0f, 1, 2, INFINITY}),
                          buffer<float>({nan, -0.0f, -0.0f, 1, 3, INFINITY}), buffer<float>(std::vector<float>(6))},
                         kExact});
}

TEST(Atomic, ScalarsAndTheirMasks) {
  const std::string text = R"(kernel k(%p: ptr<i32>, %out: ptr<i32>, %n: i32) {
  %zero = constant {value = 0, type = i32}
  %one = constant {value = 1, type = i32}
  %m = cmp %n, %zero {pred = gt}
  %a = atomic_rmw %p, %n, %m {kind = add}
  %q = addptr %p, %one
  %b = atomic_rmw %q, %n {kind = add}
  %c = atomic_cas %q, %n, %one, %m
  %t = atomic_rmw %p, %one {kind = xor}
  %s = add %a, %b
  %u = add %s, %c
  store %out, %u
})";
  for (int n : {-5, 0, 3}) expect_same(text, {{buffer<int32_t>({10, 0}), buffer<int32_t>({0}), int_scalar(n)}, kExact});
}

TEST(Atomic, ManyRanksUniformAddressesAndOldValuesInOrder) {
  if (!wants_targets("cpu") || on_cuda()) GTEST_SKIP() << "lanes of one address come in any order on GPUs";
  for (const TextKernel::Shape& shape :
       {TextKernel::Shape{1}, {5, 1}, {1, 7}, {3, 70}, {2, 3, 4, 5}, {2, 1, 2, 3, 2}}) {
    TextKernel k("%p: ptr<i32>, %x: ptr<i32> readonly, %old: ptr<i32>");
    const std::string value = k.op("load " + k.pointers("%x", shape));
    const std::string old = k.op("atomic_rmw " + k.splat("%p", shape) + ", " + value + " {kind = add}");
    k.line("store " + k.pointers("%old", shape) + ", " + old);
    int64_t count = 1;
    for (int64_t extent : shape) count *= extent;
    const auto n = static_cast<size_t>(count);
    expect_same(k.text(),
                {{buffer<int32_t>({5}), random_buffer(ElementType::kI32, n, 2, false), buffer(std::vector<int32_t>(n))},
                 kExact,
                 cpu_targets()});
  }
}

// What is loaded before an atomic on the same buffer is what was there before it.
TEST(Atomic, LoadsBeforeItAreNotMovedBehindIt) {
  TextKernel k("%p: ptr<f32>, %out: ptr<f32>");
  const TextKernel::Shape shape = {33};
  const std::string pointers = k.pointers("%p", shape);
  const std::string before = k.op("load " + pointers);
  k.op("atomic_rmw " + pointers + ", " + k.fill("2.5", "f32", shape) + " {kind = add}");
  k.line("store " + k.pointers("%out", shape) + ", " + before);
  expect_same(k.text(), {{random_buffer(ElementType::kF32, 33, 1), random_buffer(ElementType::kF32, 33, 2)}, kExact});
}

// A lock of its own: what is read under it must not be read after it is given back.
TEST(Atomic, LoadsStayBeforeAReleaseOfAnotherBuffer) {
  TextKernel k("%flag: ptr<i32>, %p: ptr<f32>, %out: ptr<f32>");
  const TextKernel::Shape shape = {33};
  const std::string before = k.op("load " + k.pointers("%p", shape));
  k.op("atomic_rmw %flag, " + k.constant("1", "i32") + " {kind = add, order = release}");
  k.line("store " + k.pointers("%out", shape) + ", " + before);
  auto ir = compile(parse_kernel(k.text()), {}, {}, "", "llvm");
  ASSERT_TRUE(ir.ok()) << ir.error().message;
  const std::string text(reinterpret_cast<const char*>(ir->code.data()), ir->code.size());
  const size_t release = text.find("release"), last_of_p = text.rfind("load <", release);
  ASSERT_NE(release, std::string::npos);
  EXPECT_NE(last_of_p, std::string::npos) << text;
}

TEST(Atomic, AnUnusedAddIsOneInstructionALane) {
  auto code = compile(parse_kernel(scatter_text("i32", 64, "atomic_rmw {kind = add, order = relaxed}", false)), {}, {},
                      "", "asm");
  ASSERT_TRUE(code.ok()) << code.error().message;
  const std::string text(reinterpret_cast<const char*>(code->code.data()), code->code.size());
#if defined(__x86_64__)
  EXPECT_NE(text.find("lock"), std::string::npos) << text;
  EXPECT_EQ(text.find("cmpxchg"), std::string::npos) << text;
#endif
  EXPECT_EQ(text.find("\tcall"), std::string::npos) << text;
}

// Programs of several threads at one address: every lane takes effect. (Generated code is not instrumented, so the
// thread sanitizer sees nothing of it either way.)
TEST(Atomic, LanesOfManyThreadsAllTakeEffect) {
  TextKernel k("%count: ptr<i32>, %sum: ptr<f32>, %least: ptr<f64>");
  k.grid = "400, 1, 1";
  const TextKernel::Shape shape = {50};
  k.op("atomic_rmw " + k.splat("%count", shape) + ", " + k.fill("1", "i32", shape) + " {kind = add, order = relaxed}");
  k.op("atomic_rmw " + k.splat("%sum", shape) + ", " + k.fill("0.5", "f32", shape) + " {kind = add}");
  const std::string number = k.op("cast " + k.op("program_id {axis = 0}") + " {to = f64}");
  k.op("atomic_rmw %least, " + k.op("neg " + number) + " {kind = min}");
  const dsl::Kernel kernel = parse_kernel(k.text());
  auto artifact = compile(kernel, {});
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  std::vector<TestArgument> arguments = {buffer<int32_t>({0}), buffer<float>({0}), buffer<double>({0})};
  auto done = run_launched(kernel, *artifact, arguments, {.threads = 8});
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(values_of<int32_t>(arguments[0])[0], 400 * 50);
  EXPECT_EQ(values_of<float>(arguments[1])[0], 400 * 25.0f);
  EXPECT_EQ(values_of<double>(arguments[2])[0], -399.0);
}

// Neighbouring floats are added several at a time where their address allows it, by each thread all of them.
TEST(Atomic, NeighboursOfManyThreadsAllTakeEffect) {
  constexpr int64_t kCount = 200;
  TextKernel k("%x: ptr<f32>, %y: ptr<f32>, %shift: i32, %n: i32");
  k.grid = "300, 1, 1";
  const TextKernel::Shape shape = {kCount};
  const std::string mask = k.mask(shape, {"%n"});
  const std::string values = k.op("load " + k.pointers("%x", shape) + ", " + mask);
  const std::string to = k.pointers(k.op("addptr %y, %shift"), shape);
  k.op("atomic_rmw " + to + ", " + values + ", " + mask + " {kind = add, order = relaxed}");
  const dsl::Kernel kernel = parse_kernel(k.text());
  std::vector<float> x(kCount);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 16) - 8;
  for (const std::string& target : cpu_targets()) {
    auto artifact = compile(kernel, {}, {}, target);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    for (int64_t shift : {0, 1, 2, 4, 7}) {
      for (int64_t n : {200, 131, 3}) {
        std::vector<TestArgument> arguments = {buffer(x), buffer(std::vector<float>(kCount + 8)), int_scalar(shift),
                                               int_scalar(n)};
        auto done = run_launched(kernel, *artifact, arguments, {.threads = 8});
        ASSERT_TRUE(done.ok()) << done.error().message;
        std::vector<float> expected(kCount + 8);
        for (int64_t i = 0; i < n; ++i) expected[static_cast<size_t>(i + shift)] = 300 * x[static_cast<size_t>(i)];
        ASSERT_EQ(values_of<float>(arguments[1]), expected) << target << " " << shift << " " << n;
      }
    }
  }
}

}  // namespace
}  // namespace kiln::test
