// What is compiled: the kernels of the library in a few configs, and random kernels, each for every target.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/dsl/config.h"
#include "kiln/dsl/ir.h"

namespace kiln::replay {

struct Subject {
  std::string name;  // "matmul_f32 split_k=2", "random 17"
  dsl::Kernel kernel;
  dsl::ConstexprValues config;
  dsl::Facts facts;
};

struct Target {
  std::string_view name;        // "cuda:sm_80"
  std::string_view emit;        // the form that is compared: what the last stage of our own writes, as text
  std::string_view needs = "";  // of KILN_TARGETS
};
// CPUs of each vector width, and a GPU of each kind of code, by full names: the machine that compiles makes no
// difference.
std::span<const Target> targets();

struct Row {
  const Subject* subject;
  const Target* target;
  std::string name() const { return subject->name + " " + std::string(target->name); }
};

// Sorted by name. A subject is compiled for the targets that its config makes a difference to.
std::vector<Subject> subjects();
std::vector<Row> rows_of(const std::vector<Subject>& subjects);

}  // namespace kiln::replay
