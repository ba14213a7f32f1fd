// The division that inline_divisions writes, run on the host with a model of the hardware's estimate: bit for bit that
// of IEEE 754.
#include "nvptx/inline_division.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/SourceMgr.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "emit.h"
#include "kiln/codegen/compile.h"
#include "target.h"

namespace kiln::codegen::nvptx {
namespace {

// rcp.approx.ftz.f64 has 20 bits behind the point, with an error of about 2^-20 (PTX ISA, "rcp.approx.ftz.f64"): the
// word of low bits is 0, the other one off by `estimate_error`. A reciprocal of what is 0, infinite or NaN is exact.
constexpr const char* kModel = R"(
define float @divide(float %x, float %y) {
  %q = fdiv float %x, %y
  ret float %q
}
@estimate_error = global i64 0
define internal double @estimate(double %y) {
  %r = fdiv double 1.0, %y
  %bits = bitcast double %r to i64
  %steps = load i64, ptr @estimate_error
  %off = shl i64 %steps, 32
  %moved = add i64 %bits, %off
  %cut = and i64 %moved, -4294967296
  %near = bitcast i64 %cut to double
  %magnitude = call double @llvm.fabs.f64(double %r)
  %small = fcmp olt double %magnitude, 0x7FF0000000000000
  %large = fcmp ogt double %magnitude, 0.0
  %usual = and i1 %small, %large
  %out = select i1 %usual, double %near, double %r
  ret double %out
}
declare double @llvm.fabs.f64(double)
)";

class InlineDivision : public testing::Test {
 protected:
  using Divide = float (*)(float, float);

  void SetUp() override {
    warm_up();
    auto host = make_cpu_target(native_target());
    ASSERT_TRUE(host.ok()) << host.error().message;
    llvm::LLVMContext context;
    llvm::SMDiagnostic problem;
    const auto module = llvm::parseAssemblyString(kModel, problem, context);
    ASSERT_TRUE(module) << problem.getMessage().str();
    module->setTargetTriple((*host)->machine->getTargetTriple());
    module->setDataLayout((*host)->machine->createDataLayout());
    inline_divisions(*module, true);
    llvm::Function* estimate = module->getFunction("llvm.nvvm.rcp.approx.ftz.d");
    ASSERT_TRUE(estimate) << "the division is not inline";
    estimate->replaceAllUsesWith(module->getFunction("estimate"));
    estimate->eraseFromParent();
    ASSERT_FALSE(llvm::verifyModule(*module));
    auto object = emit_object(*module, **host);
    ASSERT_TRUE(object.ok()) << object.error().message;
    auto code = link_shared(*object);
    ASSERT_TRUE(code.ok()) << code.error().message;
    const int file = memfd_create("kiln-division", MFD_CLOEXEC);
    ASSERT_EQ(write(file, code->data(), code->size()), static_cast<ssize_t>(code->size()));
    library_ = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
    close(file);
    ASSERT_TRUE(library_) << dlerror();
    divide_ = reinterpret_cast<Divide>(dlsym(library_, "divide"));
    error_ = static_cast<int64_t*>(dlsym(library_, "estimate_error"));
    ASSERT_TRUE(divide_ && error_);
  }
  void TearDown() override {
    if (library_) dlclose(library_);
  }

  // With an estimate at both ends of what its error may be.
  void expect_quotient(float x, float y) {
    for (int64_t steps : {-1, 1}) {
      *error_ = steps;
      const float is = divide_(x, y), wanted = x / y;
      const bool same =
          std::isnan(wanted) ? std::isnan(is) : std::bit_cast<uint32_t>(is) == std::bit_cast<uint32_t>(wanted);
      EXPECT_TRUE(same) << x << " / " << y << " = " << is << ", not " << wanted;
    }
  }

 private:
  void* library_ = nullptr;
  Divide divide_ = nullptr;
  int64_t* error_ = nullptr;
};

TEST_F(InlineDivision, KeepsZerosInfinitiesNaNsAndTheEndsOfTheRange) {
  using Limits = std::numeric_limits<float>;
  std::vector<float> ends;
  for (float x :
       {0.0f, Limits::denorm_min(), 3 * Limits::denorm_min(), 0x1.fffffcp-127f, Limits::min(), 0x1p-100f, 1.0f, 1.5f,
        3.0f, 0x1p126f, 0x1.000002p126f, 0x1p127f, Limits::max(), Limits::infinity(), Limits::quiet_NaN()}) {
    ends.push_back(x);
    ends.push_back(-x);
  }
  for (float x : ends) {
    for (float y : ends) expect_quotient(x, y);
  }
}

TEST_F(InlineDivision, IsCorrectlyRounded) {
  std::mt19937 random(1);
  const auto any = [&] { return std::bit_cast<float>(static_cast<uint32_t>(random())); };
  const auto from_one_to_two = [&] {
    return std::bit_cast<float>(0x3f800000u | (static_cast<uint32_t>(random()) >> 9));
  };
  for (int i = 0; i < 100000; ++i) {
    expect_quotient(any(), any());
    expect_quotient(from_one_to_two(), from_one_to_two());
    // A quotient near the middle of two floats, and a subnormal one.
    const double middle = static_cast<double>(from_one_to_two()) + 0x1p-24;
    const float y = from_one_to_two();
    const auto x = static_cast<float>(middle * static_cast<double>(y));
    expect_quotient(x, y);
    expect_quotient(x * 0x1p-70f, y * 0x1p70f);
  }
}

}  // namespace
}  // namespace kiln::codegen::nvptx
