// Jobs files: what a batch tunes. JSON lines, each a kernel with shapes, targets and a space (docs/use/tuning.md).
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/autotune/workload.h"

namespace kiln::autotune {

// One kernel with one shape on one target; a line gives one or more.
struct JobSpec {
  std::string place;   // "llama.jsonl:3"
  std::string name;    // "matmul bf16 M=4096,N=4096,K=4096"
  std::string target;  // as it is written; empty: the batch says
  dsl::Kernel kernel;
  Workload workload;
  std::vector<dsl::SpaceAxis> axes;  // in place of the kernel's space
  nlohmann::ordered_json line = {};  // what names the kernel and this one shape, as a line of its own
};

// Kernel files are looked up beside `file`. Errors name `file:line` and the field.
Result<std::vector<JobSpec>> parse_jobs(std::string_view text, const std::string& file);
Result<std::vector<JobSpec>> read_jobs(const std::string& file);

// One line, without its place. Kernel files are looked up in `directory`.
Result<std::vector<JobSpec>> parse_job(const nlohmann::json& line, const std::string& directory);
// Calls `each` with the JSON object of every line that is not empty, and its place, "file:3", which comes before the
// message of what it refuses.
using TakeLine = std::function<Result<void>(const std::string& place, const nlohmann::json& line)>;
Result<void> for_each_line(std::string_view text, const std::string& file, const TakeLine& each);

// A kernel of the library for an element type, "softmax" and "bf16"; without a type f32, or what the kernel has. The
// error lists what there is.
Result<dsl::Kernel> library_kernel(std::string_view name, std::string_view type);

}  // namespace kiln::autotune
