// How `kiln exec` shares a machine's processors among instances of a program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kiln/client/processors.h"
#include "kiln/dsl/result.h"

namespace kiln::cli {

using client::Processor;

enum class Aim : uint8_t {
  kNone,
  kLatency,     // instances of four cores
  kThroughput,  // an instance for each memory node
};

struct InstanceWish {
  Aim aim = Aim::kNone;
  int instances = 0;                  // 0: as many as fit
  int cores_per_instance = 0;         // 0: what there is for each
  std::vector<int> nodes = {};        // only of these; empty: of all
  bool all_hardware_threads = false;  // and not one of each core
};

struct Instance {
  std::vector<int> processors = {};  // the system's numbers
  std::optional<int> node;           // of memory, where all its processors are of one
};

// Instances are of neighbours, within a memory node as long as that can be. Error: more is wished for than is there.
Result<std::vector<Instance>> plan_instances(std::vector<Processor> processors, const InstanceWish& wish);

// "0-3,8"
std::string ranges_text(std::vector<int> numbers);

}  // namespace kiln::cli
