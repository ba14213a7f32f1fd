// Decides, before any code is emitted, which tile values need a place in scratch.
#pragma once

#include <set>
#include <vector>

#include "kiln/dsl/ir.h"

namespace kiln::codegen::cpu {

// Of an address: what will be read next lies behind it where it moves with the program or an iteration of a loop, but
// not where a product stands between, as of a row with the distance of rows, in a loop.
struct Moves {
  bool at_all = false;
  bool by_iterations = false;
  bool by_rows = false;
};

struct Schedule {
  std::vector<bool> keep;                           // by value: expensive and wanted by several sinks of its own region
  std::vector<bool> materialise;                    // by value: must be copied into scratch where it is defined
  std::vector<int> use_count;                       // by value: operands that name it, but those of assume and require
  std::vector<const dsl::Op*> user;                 // by value: the last op that names it, but assume and require
  std::vector<const dsl::Region*> defining_region;  // by value: the region that defines it; null for parameters
  std::vector<const dsl::Op*> definition;           // by value; null for parameters and region arguments
  std::vector<bool> by_elements;                    // by value: elementwise ops of its own region alone read it
  std::vector<Moves> moves;                         // by value
  std::set<const dsl::Op*> write_only;              // stores to memory that the kernel does not read
  std::set<std::pair<const dsl::Region*, dsl::ValueId>> stored_again;  // loads that its write-only stores load anew
  // Stores of one region that a single walk may make where the last of them stands, each in program order:
  //
  //   store %p, %a       for each chunk {
  //   %b = f(%a)     →     evaluate %a; evaluate %b
  //   store %q, %b         store both
  //                      }
  std::vector<std::vector<const dsl::Op*>> fused;
};

Schedule make_schedule(const dsl::Kernel& kernel);

// Ops whose results are computed where they stand, as scalars or into slots, instead of by the nests that want them.
bool is_eager(dsl::OpCode code);

}  // namespace kiln::codegen::cpu
