// What an assembly text has of each class of instructions, and the bound that this predicts.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace kiln::test {

// Of a mnemonic: "matrix", "vector", "LDS", "global memory", "scalar", "scalar memory", "wait", …
std::string class_of(const std::string& mnemonic);

// The mnemonics of a kernel in order; of its hottest loop alone where `loop` (the innermost one with the most matrix
// instructions, or with the most instructions where there are none), all of them where there is no loop.
std::vector<std::string> mnemonics_of(const std::string& assembly, bool loop);
std::map<std::string, int> count_classes(const std::vector<std::string>& mnemonics);

// Cycles that a block keeps the units of its compute unit busy with these instructions of each wave, at their peaks.
struct Cycles {
  double matrix = 0, vector = 0, lds = 0, global = 0;  // of global memory: what a compute unit has of L2
  const char* bound() const;                           // the largest
};
Cycles cycles_of(const std::vector<std::string>& mnemonics, const std::string& processor, int threads);

}  // namespace kiln::test
