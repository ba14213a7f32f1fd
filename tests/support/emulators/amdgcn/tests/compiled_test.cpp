// Kernels that LLVM's AMDGPU backend compiles, executed and compared with the host over random inputs.
#include <gtest/gtest.h>

#include <random>

#include "build.h"

namespace kiln::amdgcn_emulator {
namespace {

const char* const kProcessors[] = {"gfx942", "gfx1100", "gfx90a", "gfx1200", "gfx906", "gfx950", "gfx1250"};

class Compiled : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Gfx, Compiled, testing::ValuesIn(kProcessors),
                         [](const auto& param) { return std::string(param.param); });

TEST_P(Compiled, AddsVectors) {
  CodeObject object = compile(GetParam(), R"(
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workitem.id.x()
define amdgpu_kernel void @add(ptr addrspace(1) %x, ptr addrspace(1) %y, ptr addrspace(1) %z, i32 %n) "amdgpu-flat-work-group-size"="1,256" {
  %group = call i32 @llvm.amdgcn.workgroup.id.x()
  %item = call i32 @llvm.amdgcn.workitem.id.x()
  %base = mul i32 %group, 256
  %i = add i32 %base, %item
  %inside = icmp ult i32 %i, %n
  br i1 %inside, label %then, label %done
then:
  %px = getelementptr float, ptr addrspace(1) %x, i32 %i
  %py = getelementptr float, ptr addrspace(1) %y, i32 %i
  %pz = getelementptr float, ptr addrspace(1) %z, i32 %i
  %a = load float, ptr addrspace(1) %px
  %b = load float, ptr addrspace(1) %py
  %c = fadd float %a, %b
  store float %c, ptr addrspace(1) %pz
  br label %done
done:
  ret void
})");
  std::vector<float> x(1000), y(1000), z(1000);
  std::mt19937 random(1);
  for (auto* values : {&x, &y})
    for (float& value : *values) value = std::uniform_real_distribution<float>(-1, 1)(random);
  std::vector<MemoryRange> memory = {range_of(x, false), range_of(y, false), range_of(z)};
  Arguments arguments;
  arguments.add(x.data()).add(y.data()).add(z.data()).add(int32_t{1000});
  Launch launch;
  launch.grid = {4, 1, 1};
  launch.threads = 256;
  launch.arguments = arguments.bytes();
  launch.memory = memory;
  Result<Statistics> result = run(object, "add", launch);
  ASSERT_TRUE(result.ok()) << result.error().message;
  for (size_t i = 0; i < z.size(); ++i) EXPECT_EQ(z[i], x[i] + y[i]);
}

}  // namespace
}  // namespace kiln::amdgcn_emulator
