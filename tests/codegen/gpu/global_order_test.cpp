// The order of accesses to global memory inside a block of threads. Threads run in several orders on the emulator,
// which finds it out where a barrier is missing.
#include "differential.h"

namespace kiln::test {
namespace {

std::vector<std::string> blocks() { return {"gpu:warps=4", "gpu:warps=1,lanes=64", "gpu:warps=16"}; }

TEST(OrderOnGpu, StoresAreSeenByOtherThreadsThatLoad) {
  TextKernel k("%x: ptr<f32>, %y: ptr<f32>");
  const TextKernel::Shape shape = {512};
  k.line("store " + k.pointers("%x", shape) + ", " + k.op("neg " + k.op("load " + k.pointers("%y", shape))));
  k.line("store " + k.pointers("%y", shape) + ", " + k.op("load " + k.pointers("%x", shape, 100)));
  expect_same(k.text(), {{random_buffer(dsl::ElementType::kF32, 612, 1), random_buffer(dsl::ElementType::kF32, 512, 2)},
                         kExact,
                         blocks()});
}

TEST(OrderOnGpu, IterationsOfALoopSeeEachOthersStores) {
  TextKernel k("%x: ptr<i32>, %n: i32");
  const TextKernel::Shape shape = {256};
  const std::string p = k.pointers("%x", shape);
  k.line("%zero = constant {value = 0, type = i32}").line("%one = constant {value = 1, type = i32}");
  k.line("for %i = %zero to %n step %one {");
  k.line("%step = splat %i {shape = [256]}").line("%q = addptr " + p + ", %step").line("%v = load %q");
  k.line("%w = add %v, %step").line("store %q, %w").line("yield").line("}");
  expect_same(k.text(), {{random_buffer(dsl::ElementType::kI32, 300, 1), int_scalar(20)}, kExact, blocks()});
}

TEST(OrderOnGpu, CarriedPointersKnowTheirBuffer) {
  TextKernel k("%x: ptr<i32>, %y: ptr<i32>, %n: i32");
  const TextKernel::Shape shape = {128};
  const std::string p = k.pointers("%x", shape), q = k.pointers("%y", shape), step = k.fill("64", "i32", shape);
  k.line("%zero = constant {value = 0, type = i32}").line("%one = constant {value = 1, type = i32}");
  k.line("%end, %last = for %i = %zero to %n step %one carry (%a = " + p + ", %b = " + q + ") {");
  k.line("%v = load %a").line("%w = load %b").line("%s = add %v, %w").line("store %a, %s");
  k.line("%a2 = addptr %a, " + step).line("%b2 = addptr %b, " + step).line("yield %a2, %b2").line("}");
  expect_same(k.text(), {{random_buffer(dsl::ElementType::kI32, 600, 1), random_buffer(dsl::ElementType::kI32, 600, 2),
                          int_scalar(5)},
                         kExact,
                         blocks()});
}

TEST(OrderOnGpu, AtomicsAreOrderedWithLoadsAndEachOther) {
  TextKernel k("%x: ptr<i32>, %y: ptr<i32>");
  const TextKernel::Shape shape = {300};
  const std::string p = k.pointers("%x", shape);
  const std::string one = k.splat("%x", shape);
  k.op("atomic_rmw " + p + ", " + k.fill("3", "i32", shape) + " {kind = add, order = relaxed}");
  k.op("atomic_rmw " + one + ", " + k.along(shape, 0) + " {kind = max, order = relaxed}");
  k.op("atomic_rmw %x, " + k.constant("7", "i32") + " {kind = xchg, order = relaxed}");
  k.line("store " + k.pointers("%y", shape) + ", " + k.op("load " + one));
  expect_same(k.text(),
              {{random_buffer(dsl::ElementType::kI32, 300, 1, false), random_buffer(dsl::ElementType::kI32, 300, 2)},
               kExact,
               blocks()});
}

}  // namespace
}  // namespace kiln::test
