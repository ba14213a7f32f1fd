// Choices that ship with Kiln: configs of library kernels on devices that few have at hand, measured on one of them or
// predicted by the cost model. They stand in for a kernel's default until this machine has measured. docs/use/tuning.md
// describes the files.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kiln/autotune/batch.h"

namespace kiln::autotune {

struct ShippedChoice {
  Config config;
  std::string device;      // where it was measured, or what it is predicted for: "NVIDIA H200"
  bool predicted = false;  // by the cost model alone
  double us = 0, default_us = 0;
};

// Immutable once read, so that threads may share it.
class Shipped {
 public:
  // `share/kiln/tuned` beside the directory of this program; or KILN_TUNE_SHIPPED.
  static std::string default_directory();
  // All `*.jsonl` of a directory; none where it does not exist. Errors name `file:line` and the field.
  static Result<Shipped> read(const std::string& directory);

  // For this kernel and target, of the nearest shape; nothing where none is nearer than a factor of two, all parameters
  // taken together. The hardware does not matter.
  std::optional<ShippedChoice> find(const RecordKey& key) const;
  // All of this kernel and target, each with its bucket of shapes. Where several devices have a choice for one shape,
  // the hardware's own comes first.
  std::vector<std::pair<std::string, ShippedChoice>> all(const RecordKey& key) const;

 private:
  struct Choice {
    std::string bucket;
    ShippedChoice choice;
  };
  std::map<std::pair<std::string, std::string>, std::vector<Choice>> choices_;  // by kernel and target
};

// The lines of such a file: what a batch chose, in the order of its jobs. Jobs without a result are left out.
std::string shipped_lines(const std::vector<JobSpec>& specs, const BatchResult& result, bool predicted);

}  // namespace kiln::autotune
