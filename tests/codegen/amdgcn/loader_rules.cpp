// The rules one by one; see loader_rules.h. Names of fields are those of the guide.
#include "loader_rules.h"

#include <elf.h>

#include <algorithm>
#include <bit>
#include <set>

#include "kiln/target/gpu.h"

namespace kiln::test {
namespace {

class Rules {
 public:
  Rules(const CodeObject& object, const std::string& entry, const Gpu& gpu)
      : object_(object), entry_(entry), gpu_(gpu) {}

  std::vector<std::string> check() {
    header();
    symbols();
    note();
    if (problems_.empty()) kernel(object_.metadata.at("amdhsa.kernels")[0]);
    return problems_;
  }

 private:
  void want(bool holds, const std::string& rule) {
    if (!holds) problems_.push_back(rule);
  }

  void header() {
    constexpr int kElfAmdgpu = 224, kAbiHsa = 64, kAbiVersion5 = 3;
    want(object_.machine == kElfAmdgpu, "e_machine is EM_AMDGPU");
    want(object_.abi == kAbiHsa, "EI_OSABI is ELFOSABI_AMDGPU_HSA");
    want(object_.abi_version == kAbiVersion5, "EI_ABIVERSION is that of code object V5");
    want(object_.type == ET_DYN, "e_type is ET_DYN");
    want((object_.flags & 0xff) == gpu_.machine, "e_flags name the processor");
    // EF_AMDGPU_FEATURE_XNACK_V4, …SRAMECC_V4: "any" where the processor has the feature, none where it has not.
    want((object_.flags >> 8 & 3) == (gpu_.xnack ? 1u : 0u), "e_flags allow any XNACK");
    want((object_.flags >> 10 & 3) == (gpu_.sramecc ? 1u : 0u), "e_flags allow any SRAMECC");
    want(object_.flags >> 12 == 0, "e_flags hold nothing else");
  }

  void symbols() {
    const Symbol &code = object_.entry, &descriptor = object_.descriptor_symbol;
    want(code.type == STT_FUNC && code.binding == STB_GLOBAL && code.visibility == STV_PROTECTED,
         "the kernel's function is global, protected and STT_FUNC");
    want(descriptor.type == STT_OBJECT && descriptor.binding == STB_GLOBAL && descriptor.visibility == STV_PROTECTED,
         "the descriptor is global, protected and STT_OBJECT");
    want(descriptor.bytes == 64 && descriptor.address % 64 == 0, "the descriptor has 64 bytes at a multiple of 64");
    want(code.address % 256 == 0 && code.bytes > 0, "the code lies at a multiple of 256");
    want(object_.entry_is_executable, "the code lies in an executable segment");
    want(descriptor.address + static_cast<uint64_t>(object_.descriptor.entry_offset) == code.address,
         "KERNEL_CODE_ENTRY_BYTE_OFFSET leads to the code");
  }

  void note() {
    const nlohmann::json& root = object_.metadata;
    want(root.value("amdhsa.version", nlohmann::json()) == nlohmann::json({1, 2}), "amdhsa.version is 1.2");
    want(root.value("amdhsa.target", "") == std::string("amdgcn-amd-amdhsa--") + gpu_.name,
         "amdhsa.target is the processor");
    const nlohmann::json kernels = root.value("amdhsa.kernels", nlohmann::json());
    want(kernels.is_array() && kernels.size() == 1, "amdhsa.kernels holds one kernel");
  }

  void kernel(const nlohmann::json& kernel) {
    const KernelDescriptor& descriptor = object_.descriptor;
    const auto number = [&](const char* field) { return kernel.value(field, int64_t{-1}); };
    want(kernel.value(".name", "") == entry_, ".name is the kernel's");
    want(kernel.value(".symbol", "") == entry_ + ".kd", ".symbol is the descriptor's");
    want(number(".wavefront_size") == gpu_.lanes, ".wavefront_size is the processor's");
    want(number(".group_segment_fixed_size") == descriptor.group_segment_bytes, "GROUP_SEGMENT_FIXED_SIZE");
    want(number(".private_segment_fixed_size") == descriptor.private_segment_bytes, "PRIVATE_SEGMENT_FIXED_SIZE");
    want(number(".kernarg_segment_size") == descriptor.kernarg_bytes, "KERNARG_SIZE");
    want(number(".max_flat_workgroup_size") > 0 && number(".max_flat_workgroup_size") <= 1024,
         ".max_flat_workgroup_size is at most 1024");
    want(!kernel.value(".uses_dynamic_stack", true), ".uses_dynamic_stack is false");
    want(number(".vgpr_count") <= gpu_.most_registers, ".vgpr_count is what the processor has");
    for (const char* field : {".sgpr_count", ".vgpr_count", ".sgpr_spill_count", ".vgpr_spill_count"})
      want(number(field) >= 0, std::string(field) + " is there");
    waves_ = waves_of_groups(number(".group_segment_fixed_size"), number(".max_flat_workgroup_size"));
    registers(number(".vgpr_count"), number(".sgpr_count"), std::max<int64_t>(number(".agpr_count"), 0));
    program(descriptor);
    user_registers(descriptor);
    arguments(kernel);
  }

  bool is_gfx9() const { return gpu_.lanes == 64; }
  bool has_unified_registers() const { return gpu_.most_registers == 512; }

  // On a SIMD. A compute unit has so much LDS, and at most 16 groups of more than one wave.
  int64_t waves_of_groups(int64_t bytes, int64_t threads) const {
    const int64_t waves = (threads + gpu_.lanes - 1) / gpu_.lanes;
    int64_t groups = facts_.simds * facts_.most_waves;
    if (waves > 1) groups = 16;
    if (bytes > 0) groups = std::min(groups, facts_.lds_bytes() / bytes);
    return std::min<int64_t>(facts_.most_waves, (groups * waves + facts_.simds - 1) / facts_.simds);
  }

  // Where groups leave few waves LLVM takes as many registers as so few may have.
  // COMPUTE_PGM_RSRC1.GRANULATED_WORKITEM_VGPR_COUNT, …WAVEFRONT_SGPR_COUNT, COMPUTE_PGM_RSRC3.ACCUM_OFFSET
  void registers(int64_t vector, int64_t scalar, int64_t accumulators) {
    const auto granules = [](int64_t count, int64_t granule) {
      return std::max<int64_t>(1, (count + granule - 1) / granule) - 1;
    };
    const int64_t granule = gpu_.most_registers == 1024 ? 16 : has_unified_registers() || !is_gfx9() ? 8 : 4;
    const int64_t given = object_.descriptor.rsrc1 & 63, needed = granules(vector, granule);
    const bool is_for_few_waves = given > needed && facts_.registers / ((given + 1) * granule) >= waves_;
    want(given == needed || is_for_few_waves, "GRANULATED_WORKITEM_VGPR_COUNT is .vgpr_count's");
    // In portions of 8, of 800 that a SIMD has. RDNA gives each wave all it has, and takes no notice of what LLVM
    // writes here.
    if (is_gfx9()) {
      const int64_t portions = object_.descriptor.rsrc1 >> 6 & 15, enough = granules(scalar, 8);
      want(portions == enough || (portions > enough && 800 / ((portions + 1) * 8) >= waves_),
           "GRANULATED_WAVEFRONT_SGPR_COUNT is .sgpr_count's");
    }
    if (!has_unified_registers()) return;
    // Accumulators begin behind the others, at a multiple of four.
    const int64_t offset = 4 * ((object_.descriptor.rsrc3 & 63) + 1);
    want(accumulators == 0 ? offset >= vector : offset + accumulators == vector, "ACCUM_OFFSET is that of .agpr_count");
  }

  void program(const KernelDescriptor& d) {
    want(d.reserved_is_zero, "reserved bytes of the descriptor are 0");
    // f32, f16 and f64: to nearest, with subnormals.
    want((d.rsrc1 >> 12 & 0xff) == 0xf0, "FLOAT_ROUND_MODE and FLOAT_DENORM_MODE are those of IEEE");
    want((d.rsrc1 >> 10 & 3) == 0 && !(d.rsrc1 >> 20 & 1) && !(d.rsrc1 >> 22 & 1) && !(d.rsrc1 >> 24 & 3),
         "PRIORITY, PRIV, DEBUG_MODE, BULKY and CDBG_USER are 0");
    if (!is_gfx9()) want(d.rsrc1 >> 30 & 1, "MEM_ORDERED is 1");
    want((d.rsrc2 & 1) == (d.private_segment_bytes > 0 ? 1u : 0u), "ENABLE_PRIVATE_SEGMENT is there for scratch alone");
    want(!(d.rsrc2 >> 6 & 1) && !(d.rsrc2 >> 13 & 3), "ENABLE_TRAP_HANDLER and the exceptions of addresses are 0");
    want((d.rsrc2 >> 15 & 0x1ff) == 0, "GRANULATED_LDS_SIZE is left to the packet processor");
    want(d.rsrc2 >> 24 == 0, "no exception of arithmetic is enabled");
    want((d.rsrc2 >> 7 & 1) == 1, "ENABLE_SGPR_WORKGROUP_ID_X is 1");
  }

  // The user SGPRs that the properties ask for are as many as USER_SGPR_COUNT says.
  void user_registers(const KernelDescriptor& d) {
    constexpr int kCounts[] = {4, 2, 2, 2, 2, 2, 1};
    int count = d.preload & 0x7f;
    for (size_t bit = 0; bit < std::size(kCounts); ++bit) count += d.properties >> bit & 1 ? kCounts[bit] : 0;
    const int told = static_cast<int>(d.rsrc2 >> 1 & 31);
    // RDNA counts the registers of 16 and on that it fills up to.
    want(is_gfx9() ? told == count : told >= count && told <= 16, "USER_SGPR_COUNT is what the properties take");
    want((d.properties >> 3 & 1) == 1, "ENABLE_SGPR_KERNARG_SEGMENT_PTR is 1");
    want((d.properties >> 10 & 1) == (gpu_.lanes == 32 ? 1 : 0), "ENABLE_WAVEFRONT_SIZE32 is the processor's");
    want(!(d.properties >> 11 & 1), "USES_DYNAMIC_STACK is 0");
    want(!(d.properties >> 7 & 7) && !(d.properties >> 12), "reserved properties are 0");
  }

  void arguments(const nlohmann::json& kernel) {
    // No service of the runtime among them: neither a host that answers calls, nor a heap, nor queues.
    static const std::set<std::string> kinds = {"by_value",
                                                "global_buffer",
                                                "hidden_block_count_x",
                                                "hidden_block_count_y",
                                                "hidden_block_count_z",
                                                "hidden_group_size_x",
                                                "hidden_group_size_y",
                                                "hidden_group_size_z",
                                                "hidden_remainder_x",
                                                "hidden_remainder_y",
                                                "hidden_remainder_z",
                                                "hidden_global_offset_x",
                                                "hidden_global_offset_y",
                                                "hidden_global_offset_z",
                                                "hidden_grid_dims"};
    const auto align = kernel.value(".kernarg_segment_align", uint32_t{0});
    want(std::has_single_bit(align) && align <= 16, ".kernarg_segment_align is a power of two");
    uint32_t end = 0, widest = 1;
    for (const nlohmann::json& argument : kernel.value(".args", nlohmann::json::array())) {
      const auto offset = argument.value(".offset", ~0u), size = argument.value(".size", 0u);
      const std::string kind = argument.value(".value_kind", "");
      const std::string which = "argument " + argument.value(".name", kind) + " ";
      want(kinds.contains(kind), which + "is one that each launch has");
      want(size > 0 && offset >= end, which + "lies behind the one before");
      want(offset % std::min(std::max(size, 1u), align) == 0, which + "is aligned");
      const bool is_pointer = kind == "global_buffer";
      want(argument.value(".address_space", "") == (is_pointer ? "global" : ""), which + "has the address space");
      want(!is_pointer || size == 8, which + "has the size of a pointer");
      if (!kind.starts_with("hidden_")) widest = std::max(widest, std::min(size, 8u));
      end = offset + size;
    }
    want(end <= object_.descriptor.kernarg_bytes, "the arguments end within KERNARG_SIZE");
    want(align >= widest, ".kernarg_segment_align is that of the widest argument");
  }

  const CodeObject& object_;
  const std::string& entry_;
  const Gpu& gpu_;
  const target::AmdGpu& facts_ = *target::find_amd_gpu(gpu_.name);
  int64_t waves_ = 0;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> violations(const CodeObject& object, const std::string& entry, const Gpu& gpu) {
  return Rules(object, entry, gpu).check();
}

}  // namespace kiln::test
