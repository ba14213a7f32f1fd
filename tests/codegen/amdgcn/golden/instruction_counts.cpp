// Peaks: AMD's data sheets of MI250X, MI300X, RX 7900 XTX and RX 9070 XT, as operations a cycle and SIMD; LDS and L2
// give a compute unit 128 and 64 bytes a cycle ("CDNA 3 Architecture" and "RDNA 3" white papers). No data sheet of
// gfx1250 has them: its figures are those of LLVM's scheduling model.
#include "instruction_counts.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <sstream>

namespace kiln::test {
namespace {

constexpr double kLdsBytes = 128, kL2Bytes = 64;

struct Unit {
  int lanes, simds;      // of a wave; of a compute unit
  double vector_cycles;  // of one vector instruction of a wave
  double f16, f32, i8;   // operations of matrix instructions
};

Unit unit_of(const std::string& processor) {
  if (processor == "gfx950") return {64, 4, 4, 1024, 64, 2048};
  if (processor == "gfx942") return {64, 4, 4, 512, 64, 1024};
  if (processor == "gfx90a") return {64, 4, 4, 256, 64, 256};
  if (processor == "gfx1250") return {32, 4, 1, 2048, 128, 2048};
  if (processor == "gfx1200") return {32, 2, 1, 512, 512, 1024};
  if (processor == "gfx1100") return {32, 2, 1, 256, 256, 256};
  return {64, 4, 4, 1, 1, 1};
}

// "v_mfma_f32_16x16x16_bf16": 2·16·16·16 operations on bf16.
double matrix_cycles(const std::string& mnemonic, const Unit& unit) {
  int m = 0, n = 0, k = 0, read = 0;
  const size_t shape = mnemonic.find_first_of("0123456789", mnemonic.find('_', std::string("v_mfma_").size()));
  char type[24] = {};
  if (shape == std::string::npos) return 0;
  if (std::sscanf(mnemonic.c_str() + shape, "%dx%dx%d%n", &m, &n, &k, &read) < 3) return 0;
  std::snprintf(type, sizeof type, "%s", mnemonic.c_str() + shape + static_cast<size_t>(read));
  const std::string operand = type;
  const bool is_byte = operand.find("i8") != std::string::npos || operand.find("iu8") != std::string::npos ||
                       operand.find("p8") != std::string::npos || operand.find("bf8") != std::string::npos;
  const bool is_short = operand.find("f16") != std::string::npos;
  const double rate = is_byte ? unit.i8 : is_short ? unit.f16 : unit.f32;
  return 2.0 * m * n * k / rate;
}

// Bytes that a lane moves: by the last number of "…_b128", or by "…dwordx4", "…short".
double bytes_of(const std::string& mnemonic) {
  const auto has = [&](const char* text) { return mnemonic.find(text) != std::string::npos; };
  const double each = has("b128") || has("x4") ? 16 : has("b96") || has("x3") ? 12 : has("b64") || has("x2") ? 8 : 4;
  return has("read2") || has("write2") || has("2addr") ? 2 * each : each;
}

struct Line {
  std::string mnemonic, label, branch_target;
};

std::vector<Line> lines_of(const std::string& assembly) {
  std::vector<Line> out;
  std::istringstream text(assembly);
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string first, second;
    words >> first >> second;
    if (first.starts_with(".LBB") && first.ends_with(":")) {
      out.push_back({"", first.substr(0, first.size() - 1), ""});
    } else if (line.starts_with("\t") && !first.empty() && std::islower(static_cast<unsigned char>(first[0])) &&
               first.find('_') != std::string::npos) {
      out.push_back({first, "", first.starts_with("s_cbranch") || first == "s_branch" ? second : ""});
    }
  }
  return out;
}

std::vector<std::string> part_of(const std::vector<Line>& lines, size_t begin, size_t end) {
  std::vector<std::string> out;
  for (size_t i = begin; i < end; ++i) {
    if (!lines[i].mnemonic.empty()) out.push_back(lines[i].mnemonic);
  }
  return out;
}

}  // namespace

std::string class_of(const std::string& mnemonic) {
  static const std::pair<const char*, const char*> kClasses[] = {
      {"v_mfma", "matrix"},         {"v_wmma", "matrix"}, {"v_", "vector"},       {"s_waitcnt", "wait"},
      {"s_wait_", "wait"},          {"s_delay", "wait"},  {"s_nop", "wait"},      {"s_barrier", "barrier"},
      {"s_load", "scalar memory"},  {"s_", "scalar"},     {"ds_", "LDS"},         {"global_", "global memory"},
      {"buffer_", "global memory"}, {"flat_", "flat"},    {"scratch_", "scratch"}};
  for (const auto& [prefix, name] : kClasses) {
    if (mnemonic.starts_with(prefix)) return name;
  }
  return "other";
}

std::vector<std::string> mnemonics_of(const std::string& assembly, bool loop) {
  const std::vector<Line> lines = lines_of(assembly);
  std::vector<std::string> best;
  std::pair<int, size_t> best_size;
  for (size_t end = 0; end < lines.size() && loop; ++end) {
    size_t begin = end;
    while (begin > 0 && (lines[end].branch_target.empty() || lines[begin].label != lines[end].branch_target)) --begin;
    if (lines[begin].label.empty() || lines[begin].label != lines[end].branch_target) continue;
    const bool is_inner = std::none_of(
        lines.begin() + static_cast<ptrdiff_t>(begin) + 1, lines.begin() + static_cast<ptrdiff_t>(end),
        [&](const Line& line) {
          return std::any_of(lines.begin() + static_cast<ptrdiff_t>(begin) + 1,
                             lines.begin() + static_cast<ptrdiff_t>(end), [&](const Line& other) {
                               return !line.label.empty() && &other > &line && other.branch_target == line.label;
                             });
        });
    if (!is_inner) continue;
    const std::vector<std::string> part = part_of(lines, begin, end + 1);
    std::map<std::string, int> counts = count_classes(part);
    const std::pair<int, size_t> size = {counts["matrix"], part.size()};
    if (size > best_size) best = part, best_size = size;
  }
  return best.empty() ? part_of(lines, 0, lines.size()) : best;
}

std::map<std::string, int> count_classes(const std::vector<std::string>& mnemonics) {
  std::map<std::string, int> out;
  for (const std::string& mnemonic : mnemonics) ++out[class_of(mnemonic)];
  return out;
}

const char* Cycles::bound() const {
  const double most = std::max({matrix, vector, lds, global});
  return most == matrix ? "matrix" : most == vector ? "vector" : most == lds ? "LDS" : "memory";
}

Cycles cycles_of(const std::vector<std::string>& mnemonics, const std::string& processor, int threads) {
  const Unit unit = unit_of(processor);
  const double waves = static_cast<double>(threads) / unit.lanes, of_simd = std::max(1.0, waves / unit.simds);
  Cycles out;
  for (const std::string& mnemonic : mnemonics) {
    const std::string name = class_of(mnemonic);
    if (name == "matrix") out.matrix += of_simd * matrix_cycles(mnemonic, unit);
    if (name == "vector") out.vector += of_simd * unit.vector_cycles;
    if (name == "LDS") out.lds += waves * unit.lanes * bytes_of(mnemonic) / kLdsBytes;
    if (name == "global memory") out.global += waves * unit.lanes * bytes_of(mnemonic) / kL2Bytes;
  }
  return out;
}

}  // namespace kiln::test
