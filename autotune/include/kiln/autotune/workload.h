// What a kernel is measured on: the values of its scalar parameters, and what stands behind its pointers.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kiln/client/npy.h"
#include "kiln/dsl/ir.h"

namespace kiln::autotune {

// One parameter of the kernel. Of a pointer: an array of so many elements, with values of [low, high) where given, or
// those of a file.
struct WorkloadArgument {
  uint64_t bits = 0;  // of a scalar, as in dsl::Argument
  int64_t elements = 0;
  std::optional<std::pair<int64_t, int64_t>> range = {};
  std::string file = {};     // a .npy file by an absolute path; empty: values are random
  std::string content = {};  // 16 hex digits of the hash of its elements: what the records tell shapes apart by
  bool operator==(const WorkloadArgument&) const = default;
};

struct Workload {
  std::vector<WorkloadArgument> arguments;  // one a parameter, in order
  dsl::ConstexprValues fixed;               // constexprs that are not the tuner's: what the caller states
  uint64_t seed = 0;                        // of the arrays' values
};

// `scalars`: {"M": 4096, "scale": 0.5, …}, one for each scalar parameter. The arrays' sizes are the kernel's (`array`
// of docs/reference/kiln-text.md), or those of `arrays`: {"x": "rows*stride"} or {"ids": {"elements": …, "low": …,
// "high": …}}, numbers or expressions; or "@offsets.npy", a file in `directory`, whose elements are the values. Errors
// name the parameter, and the file. Without a directory there are no files: who sends such arrays may be another user.
Result<Workload> make_workload(const dsl::Kernel& kernel, const nlohmann::json& scalars,
                               const nlohmann::json& arrays = {}, const dsl::ConstexprValues& fixed = {},
                               const std::optional<std::string>& directory = {});

// Whether an array's values are those of a file.
bool has_file(const Workload& workload);
// The elements of the file that the argument names, as the parameter's type has them. Error: it cannot be read, or is
// not what it was when the workload was made.
Result<client::NpyArray> read_array(const dsl::Param& param, const WorkloadArgument& argument);

// The int parameters as an expression sees them, and constexprs where `config` has them.
dsl::Bindings bindings(const dsl::Kernel& kernel, const Workload& workload, const dsl::ConstexprValues& config = {});

// What holds of the workload's arguments: arrays are aligned, ints as they are.
dsl::Facts facts_of(const dsl::Kernel& kernel, const Workload& workload);

// How shapes are told apart by the records (docs/use/tuning.md).
enum class Bucket : uint8_t {
  kExact,   // every int parameter's value
  kPowers,  // ints rounded up to a power of two, and their facts
  kFacts,   // facts alone
};
// A text such as "M=4096,N=4096,K=4096;f32"; equal for workloads that share their tuning.
std::string bucket_text(const dsl::Kernel& kernel, const Workload& workload, Bucket bucket);

// How far apart the shapes of two such texts of one kernel are: the factors between their ints, in powers of two.
double bucket_distance(const std::string& a, const std::string& b);

}  // namespace kiln::autotune
