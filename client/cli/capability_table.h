// The capability matrix as a table for people: a column for each element type, `n`, `e` or `-` in a cell, with numbers
// for how and why, which are listed below.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kiln/target/capabilities.h"

namespace kiln::cli {

class CapabilityTable {
 public:
  explicit CapabilityTable(std::string heading) : heading_(std::move(heading)) {}

  void add_row(const std::string& name, const target::OpForm& form, const target::Processor& processor);
  std::string text() const;

 private:
  std::string cell(const target::Capability& has);

  struct Row {
    std::string name;
    std::vector<std::string> cells;
  };
  const std::string heading_;  // of the column of names
  std::vector<Row> rows_;
  std::vector<std::string> notes_;         // by number, from 1 on
  std::map<std::string, size_t> numbers_;  // of notes
};

}  // namespace kiln::cli
