// What each value ends up in, found in one walk against the order of the program.
#pragma once

#include <unordered_map>
#include <vector>

#include "passes/pointers.h"

namespace kiln::codegen::cpu {

// Where an op stands.
struct Place {
  int begin = 0;  // position in program order; a loop spans its region
  int end = 0;
  const dsl::Region* region = nullptr;
};

// The ops of a kernel in program order.
struct ProgramOrder {
  explicit ProgramOrder(const dsl::Kernel& kernel) { number(kernel.body); }

  std::vector<const dsl::Op*> ops;
  std::unordered_map<const dsl::Op*, Place> places;
  std::unordered_map<const dsl::Region*, const dsl::Op*> around;  // the op that has a region; not of the body

  const Place& place(const dsl::Op& op) const { return places.at(&op); }
  // The op of `region` that `op` is, or lies in.
  const dsl::Op& within(const dsl::Region& region, const dsl::Op& op) const;

 private:
  void number(const dsl::Region& region);
};

// Ops that make nests, and that values end up in: eager ones, those with an effect, and a region's yield.
bool is_sink(const dsl::Op& op);
// What is known of a value is no use of it: with facts about arguments a kernel is scheduled as without.
bool makes_code(const dsl::Op& op);

// The sinks that a value reaches by elementwise ops, and by others that move elements to other places. Of many equal
// things it says no more than that there are several.
struct Sinks {
  // A sink that needs the value until `end`: where it stands, or for one in a loop that the value is not of, where
  // that loop ends.
  struct Until {
    const dsl::Op* sink = nullptr;
    int end = -1;
  };
  // Those that write memory, by the parameter that it lies behind; absent: it is not known.
  struct Write {
    std::optional<size_t> parameter;
    dsl::ValueId pointer;  // kNoValue: several
    bool in_place;         // all are stores, and no way to one of them moves elements
  };
  Until last, last_but_one;  // of different sinks
  bool elsewhere = false;    // some sink is in another region than the value
  std::vector<Write> writes;

  bool any() const { return last.sink != nullptr; }
  bool several() const { return last_but_one.sink != nullptr; }
};

// By value.
std::vector<Sinks> find_sinks(const dsl::Kernel& kernel, const ProgramOrder& order, const Pointers& pointers,
                              const std::vector<const dsl::Region*>& defining_region);

// By value: the one of these groups of sinks, each sink in one at most, that all its sinks belong to; else -1.
std::vector<int> find_groups(const dsl::Kernel& kernel, const ProgramOrder& order,
                             const std::vector<std::vector<const dsl::Op*>>& groups);

}  // namespace kiln::codegen::cpu
