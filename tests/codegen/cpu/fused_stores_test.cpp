// Stores that one walk makes: only where nobody could tell, and then with what they want read once.
#include "differential.h"
#include "kiln/dsl/kernels.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using Shape = TextKernel::Shape;

constexpr char kPQ[] = "%p: ptr<f32>, %q: ptr<f32>, %g: ptr<f32> readonly, %n: i32";

std::string llvm_of(const TextKernel& kernel) {
  auto artifact = compile(parse_kernel(kernel.text()), {}, {}, "cpu:x86-64-v3", "llvm");
  EXPECT_TRUE(artifact.ok()) << artifact.error().message;
  if (!artifact) return "";
  return {reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size()};
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t out = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++out;
  return out;
}

// Loops over whole vectors.
size_t walks_of(const TextKernel& kernel) {
  const std::string text = llvm_of(kernel);
  return count_of(text, "\nvector") - count_of(text, "\nvector.end");
}

void check(const TextKernel& kernel, size_t count, int64_t n) {
  const std::vector<TestArgument> arguments = {random_buffer(ElementType::kF32, count, 1),
                                               random_buffer(ElementType::kF32, count, 2),
                                               random_buffer(ElementType::kF32, count, 3), int_scalar(n)};
  expect_same(kernel.text(), {arguments, {0, 0, true}});
}

// Two stores of what is made of one root, each in place of what it reads.
TextKernel in_place(const std::string& params = kPQ) {
  TextKernel k(params);
  const Shape shape = {256};
  const std::string m = k.mask(shape, {"%n"});
  const auto load = [&](const char* array) { return k.op("load " + k.pointers(array, shape) + ", " + m); };
  const std::string root = k.op("math " + load("%g") + " {fn = sqrt}"), p = load("%p"), q = load("%q");
  const std::string sum = k.op("add " + p + ", " + root);
  k.line("store " + k.pointers("%p", shape) + ", " + k.op("mul " + sum + ", " + q) + ", " + m);
  k.line("store " + k.pointers("%q", shape) + ", " + k.op("sub " + q + ", " + root) + ", " + m);
  return k;
}

TEST(StoresTogetherOnCpu, InPlaceAreOneWalk) {
  const TextKernel k = in_place();
  for (int64_t n : {256, 255, 100, 7, 0}) check(k, 256, n);
  EXPECT_EQ(walks_of(k), 1u) << llvm_of(k);
}

// Of three arrays or more that it reads, in whole vectors alone.
TEST(StoresTogetherOnCpu, AsksAheadForManyArrays) {
  EXPECT_EQ(count_of(llvm_of(in_place()), "call void @llvm.prefetch"), 0u) << "they do not move with the program";
  auto artifact = compile(kernels::adamw().ir().value(), {{"BLOCK", 4096}}, {}, "cpu:x86-64-v3", "asm");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const std::string text(reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size());
  EXPECT_EQ(count_of(text, "prefetch"), 4u) << text;
}

TEST(StoresTogetherOnCpu, ArraysThatMayBeOneAreNot) {
  const TextKernel k = in_place("%p: ptr<f32> may_alias, %q: ptr<f32> may_alias, %g: ptr<f32> readonly, %n: i32");
  EXPECT_GT(walks_of(k), 1u);
  check(k, 256, 200);
}

// What the first store wants of another place, the second one overwrites.
TEST(StoresTogetherOnCpu, ElementsThatChangePlaces) {
  TextKernel k(kPQ);
  const Shape shape = {40, 40};
  const std::string p = k.op("load " + k.pointers("%p", shape));
  k.line("store " + k.pointers("%q", shape) + ", " + k.op("permute " + p + " {order = [1, 0]}"));
  k.line("store " + k.pointers("%p", shape) + ", " + k.op("add " + p + ", " + p));
  check(k, 1600, 0);
}

TEST(StoresTogetherOnCpu, OneElementForAll) {
  TextKernel k(kPQ);
  const Shape shape = {200};
  const std::string first = k.op("load " + k.splat("%p", shape));
  k.line("store " + k.pointers("%q", shape) + ", " + first);
  k.line("store " + k.pointers("%p", shape) + ", " + k.op("add " + first + ", " + first));
  check(k, 200, 0);
}

TEST(StoresTogetherOnCpu, ShiftedReads) {
  TextKernel k(kPQ);
  const Shape shape = {200};
  const std::string behind = k.op("load " + k.pointers("%p", shape, 1)),
                    before = k.op("load " + k.pointers("%p", shape));
  k.line("store " + k.pointers("%q", shape) + ", " + k.op("add " + behind + ", " + before));
  k.line("store " + k.pointers("%p", shape, 1) + ", " + k.op("neg " + before));
  check(k, 201, 0);
}

// The later of two stores wins, lane by lane.
TEST(StoresTogetherOnCpu, OfOneArrayInOrder) {
  TextKernel k(kPQ);
  const Shape shape = {200};
  const std::string g = k.op("load " + k.pointers("%g", shape));
  k.line("store " + k.pointers("%p", shape, 1) + ", " + g);
  k.line("store " + k.pointers("%p", shape) + ", " + k.op("neg " + g));
  k.line("store " + k.pointers("%q", shape) + ", " + k.op("add " + g + ", " + g));
  check(k, 201, 0);
}

TEST(StoresTogetherOnCpu, ALoadBetweenSeesTheFirst) {
  for (int64_t shift : {0, 1}) {
    TextKernel k(kPQ);
    const Shape shape = {200};
    const std::string g = k.op("load " + k.pointers("%g", shape));
    k.line("store " + k.pointers("%p", shape) + ", " + k.op("neg " + g));
    k.line("store " + k.pointers("%q", shape) + ", " + k.op("load " + k.pointers("%p", shape, shift)));
    check(k, 201, 0);
  }
}

TEST(StoresTogetherOnCpu, AScalarBetweenSeesTheFirst) {
  TextKernel k(kPQ);
  const Shape shape = {200};
  const std::string g = k.op("load " + k.pointers("%g", shape));
  k.line("store " + k.pointers("%p", shape) + ", " + k.op("neg " + g));
  k.line("store " + k.pointers("%q", shape) + ", " + k.splat(k.op("load %p"), shape));
  check(k, 200, 0);
}

TEST(StoresTogetherOnCpu, OtherMasks) {
  TextKernel k(kPQ);
  const Shape shape = {200};
  const std::string g = k.op("load " + k.pointers("%g", shape));
  k.line("store " + k.pointers("%p", shape) + ", " + g + ", " + k.mask(shape, {"%n"}));
  k.line("store " + k.pointers("%q", shape) + ", " + k.op("neg " + g));
  for (int64_t n : {200, 77, 0}) check(k, 200, n);
}

// Rows that lie apart, and a value that is not wanted twice.
TEST(StoresTogetherOnCpu, OfTwoDimensions) {
  TextKernel k(kPQ);
  const Shape shape = {16, 48};
  const std::string m = k.mask(shape, {"%n", "%n"});
  const std::string root = k.op("math " + k.op("load " + k.pointers("%g", shape) + ", " + m) + " {fn = exp}");
  const std::string other = k.op("math " + root + " {fn = sqrt}");
  k.line("store " + k.pointers("%p", shape) + ", " + k.op("add " + root + ", " + other) + ", " + m);
  k.line("store " + k.pointers("%q", shape) + ", " + k.op("sub " + root + ", " + other) + ", " + m);
  for (int64_t n : {48, 17, 9, 0}) {
    const std::vector<TestArgument> arguments = {random_buffer(ElementType::kF32, 768, 1),
                                                 random_buffer(ElementType::kF32, 768, 2),
                                                 random_buffer(ElementType::kF32, 768, 3), int_scalar(n)};
    expect_same(k.text(), {arguments, {1e-5, 1e-6}});
  }
}

}  // namespace
}  // namespace kiln::test
