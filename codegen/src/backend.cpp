#include "backend.h"

#include <array>

#include "gpu/passes/block_passes.h"
#include "kiln/dsl/config.h"

namespace kiln::codegen {
namespace {

// Families of targets, and the backend of each that this compiler has.
struct Family {
  std::string_view name, machines;
  const Backend* backend;
};

std::span<const Family> families() {
#ifdef KILN_NVPTX
  static const Backend* const nvidia = &nvptx::backend();
#else
  static const Backend* const nvidia = nullptr;
#endif
#ifdef KILN_AMDGCN
  static const Backend* const amd = &amdgcn::backend();
#else
  static const Backend* const amd = nullptr;
#endif
  static const std::array<Family, 3> all = {Family{"cpu", "CPUs", &cpu::backend()},
                                            Family{"cuda", "NVIDIA GPUs", nvidia}, Family{"amd", "AMD GPUs", amd}};
  return all;
}

template <class Row>
void append(std::span<const Row> table, std::vector<PassRow>& out) {
  for (const Row& row : table) out.push_back({row.name, row.place});
}

}  // namespace

dsl::ConstexprValues Job::config() const {
  dsl::ConstexprValues out = request.constexprs;
  if (!attempt.specialises) out.erase(std::string(dsl::kWarpSpecialise));
  return out;
}

Result<const Backend*> backend_for(const std::string& target) {
  for (const Family& family : families()) {
    if (dsl::target_family(target) != family.name) continue;
    if (family.backend) return family.backend;
    return invalid_argument("target `" + target.substr(0, 80) + "`: this compiler was built without " +
                            std::string(family.machines) + " (KILN_TARGETS)");
  }
  return &cpu::backend();
}

std::span<const Backend* const> backends() {
  static const std::vector<const Backend*> all = [] {
    std::vector<const Backend*> out;
    for (const Family& family : families()) {
      if (family.backend) out.push_back(family.backend);
    }
    return out;
  }();
  return all;
}

std::vector<PassRow> rows_of(const Backend& backend) {
  std::vector<PassRow> out;
  append(rounding_passes(), out);
  append(pipeline(), out);
  append(backend.tile_passes, out);
  append(backend.choose_shape ? gpu_cuts() : cpu_cuts(), out);
  if (backend.choose_shape) {
    append(gpu_bindings(), out);
    append(gpu_passes(), out);
    append(gpu::block_passes(), out);
    append(gpu::relieving_passes(), out);
    append(gpu::shared_passes(), out);
  }
  append(backend.lowered_passes, out);
  append(backend.llvm_passes, out);
  return out;
}

}  // namespace kiln::codegen
