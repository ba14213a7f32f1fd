// A tool of NVIDIA's names a library in the environment, which is handed a table of functions to fill in: so the
// headers of NVTX 3 do it in every program, and no library of NVTX's own is there. A tool of AMD's is found by what it
// sets in the environment, and gets its ranges through a library that it listens to.
#include "ranges.h"

#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "lifetime.h"

namespace kiln::client {
namespace {

struct RangeTool {
  int (*push)(const char* name) = nullptr;
  int (*pop)() = nullptr;
};

void* open_tool(const char* library) {
  const LinkerTurn turn;
  return ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
}

template <class Function>
Function function_of(void* library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

// ---- NVTX 3, as nvtxTypes.h has it ----

using NvtxFunction = void (*)();
constexpr size_t kModules = 7, kMostFunctions = 16;
// How many functions a module has, with one of number 0, which is none.
constexpr std::array<unsigned, kModules> kFunctions = {0, 16, 9, 15, 7, 16, 7};
constexpr size_t kCore = 1, kRangePushA = 9, kRangePop = 11;
constexpr uint32_t kCallbackTable = 1, kVersionTable = 3;  // tables that the tool asks for

// What the tool has filled in, and where it finds the places.
struct NvtxTables {
  NvtxFunction functions[kModules][kMostFunctions] = {};
  NvtxFunction* places[kModules][kMostFunctions] = {};

  NvtxTables() {
    for (size_t module = 0; module < kModules; ++module) {
      for (unsigned i = 1; i < kFunctions[module]; ++i) places[module][i] = &functions[module][i];
    }
  }
};
NvtxTables& nvtx_tables() {
  static NvtxTables tables;
  return tables;
}

int give_places(uint32_t module, NvtxFunction*** places, unsigned* count) {
  if (module >= kModules || kFunctions[module] == 0) return 0;
  if (places != nullptr) *places = nvtx_tables().places[module];
  if (count != nullptr) *count = kFunctions[module];
  return 1;
}

struct NvtxCallbacks {
  size_t bytes;
  int (*give_places)(uint32_t module, NvtxFunction*** places, unsigned* count);
};
struct NvtxVersion {
  size_t bytes;
  uint32_t version, reserved;
  void (*set_version_of_tool)(uint32_t version);
};

const void* nvtx_table(uint32_t number) {
  static constexpr NvtxCallbacks kTable{sizeof(NvtxCallbacks), give_places};
  static constexpr NvtxVersion kOurs{sizeof(NvtxVersion), 3, 0, [](uint32_t) {}};
  if (number == kCallbackTable) return &kTable;
  return number == kVersionTable ? &kOurs : nullptr;
}

RangeTool find_nvtx() {
  const char* library = ::secure_getenv("NVTX_INJECTION64_PATH");
  void* handle = library != nullptr && *library != '\0' ? open_tool(library) : nullptr;
  if (handle == nullptr) return {};
  using Begin = int (*)(const void* (*table)(uint32_t));
  const auto begin = function_of<Begin>(handle, "InitializeInjectionNvtx2");
  if (begin == nullptr || begin(nvtx_table) == 0) return {};
  const NvtxFunction* core = nvtx_tables().functions[kCore];
  return {reinterpret_cast<int (*)(const char*)>(core[kRangePushA]), reinterpret_cast<int (*)()>(core[kRangePop])};
}

// ---- roctx ----

RangeTool find_roctx() {
  // rocprofv3 listens to a library of its own, tools before it to the other one.
  struct Sign {
    const char* variable;
    std::vector<const char*> libraries;
  };
  const Sign signs[] = {{"ROCP_TOOL_LIBRARIES", {"librocprofiler-sdk-roctx.so.1", "librocprofiler-sdk-roctx.so"}},
                        {"HSA_TOOLS_LIB", {"libroctx64.so.4", "libroctx64.so"}}};
  for (const Sign& sign : signs) {
    if (::secure_getenv(sign.variable) == nullptr) continue;
    for (const char* library : sign.libraries) {
      void* handle = open_tool(library);
      if (handle == nullptr) continue;
      return {function_of<int (*)(const char*)>(handle, "roctxRangePushA"),
              function_of<int (*)()>(handle, "roctxRangePop")};
    }
  }
  return {};
}

// Never destroyed: launches go on while exit() destroys statics.
const std::vector<RangeTool>& range_tools() {
  static const std::vector<RangeTool>& tools = *new std::vector<RangeTool>([] {
    std::vector<RangeTool> out;
    for (const RangeTool& tool : {find_nvtx(), find_roctx()}) {
      if (tool.push != nullptr && tool.pop != nullptr) out.push_back(tool);
    }
    return out;
  }());
  return tools;
}

}  // namespace

bool find_range_tools() { return !range_tools().empty(); }

void push_range(const std::string& name) {
  for (const RangeTool& tool : range_tools()) tool.push(name.c_str());
}

void pop_range() {
  for (const RangeTool& tool : range_tools()) tool.pop();
}

}  // namespace kiln::client
