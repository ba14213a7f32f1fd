// A model in one file, with code for some targets: `kiln bundle` writes it, and `kiln run` runs it where there is no
// compiler. Its format is in docs/reference/cache-format.md.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "commands.h"
#include "load_program.h"

namespace kiln::cli {

struct BundledCode {
  std::string target;   // as it was asked for
  std::string package;  // kiln/client/graph_package.h
};

// Whether the file begins like one.
bool is_model_bundle(const std::string& file);

// With a `weights_file` the values stay in that `.pt2`, which is to lie beside the bundle; else they are inside.
Result<void> write_model_bundle(const std::string& path, const Program& program, const std::vector<BundledCode>& codes,
                                const std::string& weights_file, const std::string& key);

struct BundledModel {
  struct Code {
    std::string target;
    std::span<const std::byte> package;
  };
  Program program;
  std::vector<Code> codes;            // in the order in which they were asked for
  std::shared_ptr<const void> owner;  // of the packages
};
// Of a whole file that is authenticated by the key, or without one has its checksum.
Result<BundledModel> read_model_bundle(const std::string& path, const std::string& key);

Result<void> run_bundle(const RunFlags& flags);

}  // namespace kiln::cli
