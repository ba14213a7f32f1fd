// Kernels of very many ops: no stage dies of their length or depth, and what they are compiled to computes what they
// say. That none takes a time that grows faster than they do, bench-compile --grow shows; here a test that it does
// would end past its deadline. KILN_TEST_GROWTH=1 takes ten times as many ops.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "growth/families.h"
#include "kiln/abi/cpu_abi.h"
#include "kiln/codegen/compile.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/canonical.h"
#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/interpreter.h"
#include "kiln/dsl/text.h"
#include "kiln/dsl/verify.h"
#include "sampled.h"

namespace kiln::growth {
namespace {

using Words = std::vector<uint32_t>;  // of f32 or i32

// Of the default run enough for what begins at some hundreds of ops; what is to be deeper than a stack stays so.
int count_for(const Family& family) {
  constexpr int kUsual = 1000, kEnough = 600;
  if (family.most) return family.most - 1;
  if (std::getenv("KILN_TEST_GROWTH")) return 10 * family.tested;
  return family.tested == kUsual && !test::runs_all_cases() ? kEnough : family.tested;
}

// The iterations of nested loops multiply.
uint32_t turns(const Family& family) { return family.most ? 1 : 2; }

// Small numbers, so that sums in another order are the same.
Words input(const Family& family, int count) {
  Words x(static_cast<size_t>(elements(family, count)));
  for (size_t i = 0; i < x.size(); ++i) {
    const double number = static_cast<double>(i % 8);
    const auto type = family.is_int ? dsl::ElementType::kI32 : dsl::ElementType::kF32;
    x[i] = static_cast<uint32_t>(family.is_int ? dsl::bits_from_int(type, static_cast<int64_t>(number))
                                               : dsl::bits_from_double(type, number));
  }
  return x;
}

// Through every stage before a target.
void expect_same_in_every_form(const dsl::Kernel& canonical) {
  const auto valid = dsl::verify(canonical);
  ASSERT_TRUE(valid.ok()) << valid.error().message;
  const std::string text = dsl::print(canonical);
  const auto parsed = dsl::parse(text, "grown.kiln");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_TRUE(dsl::print(*parsed) == text);
  const auto decoded = dsl::decode_kernel(dsl::encode_kernel(canonical));
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_TRUE(dsl::print(*decoded) == text);
}

Result<Words> interpreted(const Family& family, int count, const dsl::Kernel& kernel) {
  const auto concrete = dsl::instantiate(kernel, {}, {});
  if (!concrete) return concrete.error();
  Words x = input(family, count), y(x.size());
  const auto extent = static_cast<int64_t>(x.size());
  const dsl::Argument arguments[] = {{x.data(), extent, 0}, {y.data(), extent, 0}, {nullptr, 0, turns(family)}};
  if (auto done = dsl::interpret(*concrete, arguments, {1, 1, 1}); !done) return done.error();
  return y;
}

Result<Words> compiled(const Family& family, int count, const dsl::Kernel& kernel) {
  static const bool warm = (codegen::initialise(), true);  // once: it registers LLVM's targets
  (void)warm;
  const auto request = dsl::encode_request({kernel, codegen::native_target(), {}, {}});
  if (!request) return request.error();
  const auto artifact = codegen::compile(request->canonical, request->debug, {});
  if (!artifact) return artifact.error();
  const int fd = memfd_create("growth", MFD_CLOEXEC);
  if (write(fd, artifact->code.data(), artifact->code.size()) != static_cast<ssize_t>(artifact->code.size())) {
    return internal_error("cannot write a memory file");
  }
  void* library = dlopen(("/proc/self/fd/" + std::to_string(fd)).c_str(), RTLD_NOW | RTLD_LOCAL);
  close(fd);
  if (!library) return internal_error(std::string("dlopen: ") + dlerror());
  const auto entry = reinterpret_cast<kiln_entry_fn>(dlsym(library, "kiln_entry"));
  Words x = input(family, count), y(x.size());
  struct {
    void *x, *y;
    uint32_t n;
  } const params = {x.data(), y.data(), turns(family)};
  const uint64_t bytes = (static_cast<uint64_t>(artifact->metadata.scratch_bytes.value_or(0)) + 127) / 64 * 64;
  const std::unique_ptr<void, void (*)(void*)> scratch(std::aligned_alloc(64, bytes), std::free);
  std::memset(scratch.get(), 0xff, bytes);  // nothing may rely on what was there
  kiln_ctx context{};
  context.size = sizeof context;
  context.scratch = scratch.get();
  context.scratch_bytes = bytes;
  const uint32_t grid[3] = {1, 1, 1};
  const int32_t code = entry(&params, grid, 0, 1, &context);
  dlclose(library);
  return code == KILN_OK ? Result<Words>(y) : Result<Words>(internal_error("the entry failed"));
}

bool matches(const Family& family, uint32_t x, uint32_t y) {
  if (x == y) return true;
  const double a = dsl::double_from_bits(dsl::ElementType::kF32, x),
               b = dsl::double_from_bits(dsl::ElementType::kF32, y);
  if (family.is_int) return false;
  if (a == b || (std::isnan(a) && std::isnan(b))) return true;
  return !family.is_exact && std::abs(a - b) <= 1e-3 * (1 + std::abs(b));
}

void expect_compiled_as_interpreted(const Family& family, int count) {
  const auto kernel = family.kernel(count);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const dsl::Kernel canonical = dsl::canonicalise(*kernel);
  expect_same_in_every_form(canonical);
  const auto made = compiled(family, count, canonical), meant = interpreted(family, count, canonical);
  ASSERT_TRUE(made.ok()) << made.error().message;
  ASSERT_TRUE(meant.ok()) << meant.error().message;
  for (size_t i = 0; i < meant->size(); ++i) {
    ASSERT_TRUE(matches(family, (*made)[i], (*meant)[i]))
        << "element " << i << ": " << std::hex << (*made)[i] << ", not " << (*meant)[i];
  }
}

class Growth : public testing::TestWithParam<Family> {};

// Long enough for calls and cuts of what one nest evaluates, and of some families for parts.
TEST_P(Growth, CompiledAsInterpreted) { expect_compiled_as_interpreted(GetParam(), count_for(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Families, Growth, testing::ValuesIn(families().begin(), families().end()),
                         [](const auto& info) { return std::string(info.param.name); });

// Work lists, where a walk by recursion takes a frame an op.
TEST(GrowthOfChains, LongerThanTheStack) {
  for (const char* name : test::sampled(std::vector<const char*>{"adds_f32", "adds_i32"}, 1)) {
    SCOPED_TRACE(name);
    expect_compiled_as_interpreted(*find_family(name), 100000);
  }
}

}  // namespace
}  // namespace kiln::growth
