// What the cost model would choose for a device that is not at hand.
#pragma once

#include <optional>

#include "kiln/autotune/batch.h"

namespace kiln::autotune {

struct KnownDevice {
  std::string_view name;  // of the command line: "a100"
  std::string device;     // "NVIDIA A100 80GB"
  Machine machine;        // by its data sheet
};
// Error: there is none of this name; it lists those that there are.
Result<KnownDevice> known_device(std::string_view name);
// The roofs by data sheet of the device that `hardware` names, else of another one of this target.
std::optional<Machine> sheet_machine(const std::string& target, const std::string& hardware);

// Every job with the config that the model expects to be the fastest on that device, whatever target it names. Those
// that promise most are compiled, for what a config costs is known better then; nothing is measured. `best_us` and
// `default_us` are predictions.
BatchResult predict_batch(const std::vector<JobSpec>& jobs, Compiler& compiler, const KnownDevice& device,
                          const TuneOptions& options, const BatchProgress& progress = {},
                          const std::stop_token& stop = {});

}  // namespace kiln::autotune
