// Kernels of one expression; see elementwise.h.
#include "elementwise.h"

namespace kiln::amdgcn_emulator {

std::string map_kernel(const std::string& result, const std::string& input, const std::string& body,
                       const std::string& declarations) {
  std::string text = R"(
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workitem.id.x()
)" + declarations + R"(
define amdgpu_kernel void @map(ptr addrspace(1) %out, ptr addrspace(1) %pa, ptr addrspace(1) %pb, ptr addrspace(1) %pc)
    "amdgpu-flat-work-group-size"="1,128" "denormal-fp-math"="ieee,ieee" {
  %group = call i32 @llvm.amdgcn.workgroup.id.x()
  %item = call i32 @llvm.amdgcn.workitem.id.x()
  %base = mul i32 %group, 128
  %i = add i32 %base, %item
)";
  for (std::string name : {"a", "b", "c"})
    text += "  %q" + name + " = getelementptr " + input + ", ptr addrspace(1) %p" + name + ", i32 %i\n  %" + name +
            " = load " + input + ", ptr addrspace(1) %q" + name + "\n";
  text += body;
  text += "\n  %qo = getelementptr " + result + ", ptr addrspace(1) %out, i32 %i\n  store " + result +
          " %r, ptr addrspace(1) %qo\n  ret void\n}\n";
  return text;
}

}  // namespace kiln::amdgcn_emulator
