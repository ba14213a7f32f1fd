// The metadata of an artifact: what a launcher must know about compiled code, and what people and the tuner want to.
// The compiler fills it in; docs/reference/artifact.md says what each field means. As JSON, which caches and the wire
// carry, it has one writer and one reader, here.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/abi/launch_block.h"
#include "kiln/dsl/facts.h"
#include "kiln/dsl/result.h"

namespace kiln::abi {

// Where an op stands in the author's source; line 0: unknown.
struct SourcePlace {
  std::string file;
  uint32_t line = 0, column = 0;
};

// What compiled code may fail at, by number.
struct Check {
  std::string op;
  SourcePlace place;
  std::optional<std::string> message;  // of an assert
  std::optional<int64_t> extent;       // gather: of the axis that the index counts along
};

// What it prints, by number.
struct PrintedType {
  dsl::ElementType element = dsl::ElementType::kF32;
  std::vector<int64_t> shape;
};
struct Print {
  std::string message;
  SourcePlace place;
  std::vector<PrintedType> values;
};

// One of several launches: its grid is the kernel's with axis 0 times `chunks`. On GPUs also its block.
struct LaunchStep {
  std::string entry;
  int64_t chunks = 1;
  std::optional<int64_t> threads, shared_bytes;
};

// An array as the tensor copy engine of a GPU sees it, which the host describes at every launch.
struct TensorMap {
  uint32_t param = 0;  // the pointer that it is based on
  dsl::Expr offset;    // in elements
  dsl::ElementType element = dsl::ElementType::kF32;
  std::vector<dsl::Expr> dims, strides_bytes;  // innermost first; strides of all but the innermost
  std::vector<int64_t> box;
  int swizzle_bytes = 0;  // 0, 32, 64 or 128
  bool fills_nan = false;
};

// What a GPU's kernel asks of its launches, and what it takes of a multiprocessor as far as that is known.
struct Device {
  std::optional<int64_t> threads, programs, persistent, shared_bytes;
  std::optional<int64_t> registers, accumulator_registers, scalar_registers, spill_bytes, scalar_spills;
  std::optional<int64_t> lds_bytes, scratch_bytes, waves_per_simd, assembler_us;
  bool waits = false;
  std::optional<std::array<int64_t, 3>> cluster;
  std::vector<TensorMap> tensor_maps;
  std::optional<std::vector<std::string>> warnings;  // the assembler's
};

struct DeviceNumber {
  const char* name;
  std::optional<int64_t> Device::* field;
};
inline constexpr DeviceNumber kDeviceNumbers[] = {
    {"threads", &Device::threads},
    {"programs", &Device::programs},
    {"persistent", &Device::persistent},
    {"shared_bytes", &Device::shared_bytes},
    {"registers", &Device::registers},
    {"accumulator_registers", &Device::accumulator_registers},
    {"scalar_registers", &Device::scalar_registers},
    {"spill_bytes", &Device::spill_bytes},
    {"scalar_spills", &Device::scalar_spills},
    {"lds_bytes", &Device::lds_bytes},
    {"scratch_bytes", &Device::scratch_bytes},
    {"waves_per_simd", &Device::waves_per_simd},
    {"assembler_us", &Device::assembler_us},
};

struct Metadata {
  struct Param {
    std::string name, type;
    uint64_t offset = 0;
    bool readonly = false;
  };
  struct Needs {
    std::string architecture;
    std::vector<std::string> features;
  };

  std::string kernel, target, emit, entry;
  std::vector<Param> params;
  int64_t params_bytes = 0;
  std::vector<std::string> grid;     // for people
  std::vector<dsl::Expr> grid_expr;  // three
  std::map<std::string, int64_t> constexprs;
  std::vector<int64_t> config;
  dsl::Facts facts;
  std::map<std::string, int64_t> phases_us, passes_us;
  int64_t code_bytes = 0;
  std::vector<Check> checks;
  std::vector<Print> prints;
  std::vector<LaunchStep> plan;  // empty: one launch, of `entry`
  std::optional<int64_t> workspace_bytes;
  // Of a CPU.
  std::optional<Needs> needs;
  std::optional<int64_t> scratch_bytes;
  // Of a GPU. `offsets`: of the fields of kLaunchFieldNames.
  std::optional<Device> device;
  std::map<LaunchField, int64_t> offsets;
  // Not in JSON: the client adds where an artifact came from, "memory", "disk", "remote" or "compile", and whether it
  // outlasts a power cut, of requests that ask for that.
  std::string served_from;
  std::optional<bool> durable;
};

inline constexpr const char* kQuickEmit = "quick";  // `emit` of code that is made in less time, to be replaced

std::string write_metadata(const Metadata& metadata);
// The error says which field is not as it must be: "a bad `plan`". Fields that are missing are empty, those that are
// unknown are passed over.
Result<Metadata> read_metadata(std::string_view json);

}  // namespace kiln::abi
