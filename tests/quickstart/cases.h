// The kernels and shapes of the quickstart, with their float64 references.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kiln/client/client.h"
#include "kiln/dsl/kernels.h"

namespace kiln::quickstart {

struct Machine;

// What one case measured of its result.
struct Check {
  double error = 0;     // largest |out - reference|; for products ‖out - reference‖ / ‖reference‖
  bool passed = false;  // within the tolerance of docs/reference/ops.md
};
inline bool passes(const Result<Check>& check) { return check.ok() && check->passed; }

struct Case {
  std::string family, kernel, shape;
  const dsl::Kernel* ir = nullptr;
  dsl::ConstexprValues constexprs;
  double bytes = 0;  // that must move; 0 for products
  double flops = 0;  // of products
  bool reads_only = false;
  // Gets the handle (the cold compile), and gives back what launches it and what checks the output.
  struct Prepared {
    std::function<Result<void>()> run;  // on a device: queues it
    std::function<Result<Check>()> check;
    abi::Metadata metadata;
  };
  std::function<Result<Prepared>(const Machine&)> prepare;
};

// Shapes for a quick test, those of models, and what fits the second-level cache of a core with its results.
enum class Size { kSmall, kReal, kInCache };

std::vector<Case> quickstart_cases(Size size);

}  // namespace kiln::quickstart
