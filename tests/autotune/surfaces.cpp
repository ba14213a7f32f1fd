#include "surfaces.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace kiln::autotune::surfaces {
namespace {

using Axes = std::vector<dsl::SpaceAxis>;
using TimeOf = std::function<double(const Config&)>;

constexpr double kMultiprocessors = 132, kRegisters = 65536, kSharedBytes = 227e3;

double at(const Config& config, const char* axis, double otherwise = 0) {
  const auto found = config.find(axis);
  return found == config.end() ? otherwise : static_cast<double>(found->second);
}

// A number of N(0, 1) that belongs to the config.
double noise_of(const Config& config, uint64_t seed) {
  uint64_t hash = seed * 0x9e3779b97f4a7c15u + 0xcbf29ce484222325u;
  for (char c : to_string(config)) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  std::mt19937_64 random(hash ^ hash >> 29);
  return std::normal_distribution<double>()(random);
}

void enumerate(const Axes& axes, size_t axis, Config& config, std::vector<Config>& out) {
  if (axis == axes.size()) {
    out.push_back(config);
    return;
  }
  for (int64_t value : axes[axis].values) {
    config[axes[axis].name] = value;
    enumerate(axes, axis + 1, config, out);
  }
}

Surface surface(std::string name, Axes axes, const TimeOf& time_of, const TimeOf& model, double rugged,
                uint64_t variant) {
  Surface out;
  out.name = std::move(name);
  out.space.axes = std::move(axes);
  Config config;
  enumerate(out.space.axes, 0, config, out.configs);
  Config middle;
  for (const dsl::SpaceAxis& axis : out.space.axes) {
    middle[axis.name] = axis.values[(axis.values.size() + variant) / 2 % axis.values.size()];
  }
  for (size_t i = 0; i < out.configs.size(); ++i) {
    out.us.push_back(time_of(out.configs[i]) * std::exp(rugged * noise_of(out.configs[i], variant)));
    out.predicted.push_back(model(out.configs[i]));
    if (out.configs[i] == middle) out.fallback = i;
  }
  return out;
}

// ---- products of matrices

double product_us(double m, double n, double k, const Config& config, bool as_modelled) {
  const double bm = at(config, "BM"), bn = at(config, "BN"), bk = at(config, "BK", 64), warps = at(config, "num_warps"),
               stages = at(config, "num_stages");
  const double sums = bm * bn / (warps * 32), registers = std::min(255.0, sums + 64);
  const double shared = (bm + bn) * bk * 2 * stages;
  const double resident =
      std::clamp(std::floor(std::min(kSharedBytes / shared, kRegisters / (registers * warps * 32))), 0.5, 8.0);
  const double at_once = kMultiprocessors * resident;
  const double programs = std::ceil(m / bm) * std::ceil(n / bn);
  const double waves = as_modelled ? std::max(1.0, programs / at_once) : std::ceil(programs / at_once);
  const double share = 1 / (1 + 40 / bm + 40 / bn) * (1 - 0.35 / (stages * bk / 32)) * (sums < 32 ? 0.9 : 1);
  const double us = 3 + waves * resident * bm * bn * k * 2 / (share * 6e6);
  if (as_modelled) return us;
  const bool enough_warps = (warps == 8) == (bm * bn >= 128 * 128);
  return us * (sums > 128 ? 1.6 : 1) * (enough_warps ? 1 : 1.12);
}

Surface product(std::string name, double m, double n, double k, bool small, uint64_t variant) {
  const Axes large = {{"BM", {64, 128, 256}},
                      {"BN", {64, 128, 256}},
                      {"BK", {32, 64}},
                      {"num_warps", {4, 8}},
                      {"num_stages", {2, 3, 4}}};
  const Axes few = {{"BM", {64, 128, 256}}, {"BN", {128, 256}}, {"num_warps", {4, 8}}, {"num_stages", {2, 3, 4}}};
  return surface(
      std::move(name), small ? few : large, [=](const Config& c) { return product_us(m, n, k, c, false); },
      [=](const Config& c) { return product_us(m, n, k, c, true); }, 0.015, variant);
}

// ---- rows: reductions and norms

double rows_us(double rows, double cols, const Config& config, bool as_modelled) {
  const double block = at(config, "BLOCK"), warps = at(config, "num_warps"), lanes = warps * 32;
  const double each = std::min(block, cols) / lanes, passes = std::ceil(cols / block);
  const double waste = std::max(1.0, block / cols), work = rows * cols / 1e6 * (1 + 0.15 * (passes - 1));
  if (as_modelled) return 2 + work * (1 + 0.3 * (waste - 1)) * (1 + 0.01 * warps);
  const double registers = std::min(255.0, each * 1.3 + 24);
  const double resident = std::max(0.5, std::min(64 / warps, kRegisters / (registers * lanes)));
  const double latency = 1 + 0.6 * std::exp(-resident * warps / 24 * std::min(each, 8.0) / 4);
  const double spills = each <= 160 ? 1 : 1 + (each - 160) / 160;
  return 2 + work * latency * spills * (warps > 1 ? 1 + 0.03 * warps : 1) * (1 + 0.2 * (waste - 1));
}

Surface row_kernel(std::string name, double rows, double cols, std::vector<int64_t> blocks, uint64_t variant) {
  return surface(
      std::move(name), {{"BLOCK", std::move(blocks)}, {"num_warps", {1, 2, 4, 8, 16}}},
      [=](const Config& c) { return rows_us(rows, cols, c, false); },
      [=](const Config& c) { return rows_us(rows, cols, c, true); }, 0.012, variant);
}

// ---- tiles of two dimensions: transposes, elementwise kernels

Surface tiles(std::string name, double elements, Axes axes, uint64_t variant) {
  const TimeOf time_of = [=](const Config& c) {
    const double rows = at(c, "BR"), cols = at(c, "BC"), each = rows * cols / (at(c, "num_warps", 4) * 32);
    return 2 + elements / 1e6 * (1 + 8 / rows + 4 / cols) * (1 + 0.05 * std::abs(std::log2(each / 16))) *
                   (cols < 32 ? 1.25 : 1) * (each < 4 ? 1.3 : 1);
  };
  const TimeOf model = [=](const Config& c) { return 2 + elements / 1e6 * (1 + 2 / at(c, "BR") + 2 / at(c, "BC")); };
  return surface(std::move(name), std::move(axes), time_of, model, 0.008, variant);
}

// ---- sums of columns, by several programs a column

Surface columns(double rows, double cols, uint64_t variant) {
  const TimeOf time_of = [=](const Config& c) {
    const double part = at(c, "ROWS"), block = at(c, "BLOCK"), warps = at(c, "num_warps");
    const double programs = std::ceil(cols / block) * std::ceil(rows / part);
    const double filled = std::clamp(programs * warps / (kMultiprocessors * 16), 0.05, 1.0);
    const double each = std::log2(part * block / (warps * 32));
    return 3 + (rows * cols / 1e6 / std::pow(filled, 0.7) * (1 + 0.02 * programs / 1000) + 0.4 * programs / 132) *
                   (1 + 0.08 * std::max(0.0, each - 6) + 0.06 * std::max(0.0, 3 - each));
  };
  const TimeOf model = [=](const Config& c) {
    const double programs = std::ceil(cols / at(c, "BLOCK")) * std::ceil(rows / at(c, "ROWS"));
    return 3 + rows * cols / 1e6 * (1 + 1 / at(c, "ROWS")) * (1 + programs / 3000);
  };
  return surface("sums of columns", {{"ROWS", {64, 256, 512}}, {"BLOCK", {32, 64, 256}}, {"num_warps", {4, 8, 16}}},
                 time_of, model, 0.012, variant);
}

// ---- attention: registers decide

Surface attention(uint64_t variant) {
  const TimeOf time_of = [](const Config& c) {
    const double bm = at(c, "BM"), bn = at(c, "BN"), warps = at(c, "num_warps"), stages = at(c, "num_stages");
    const double registers = bm * (64 + bn) / (warps * 32) + 40;
    const double spills = registers <= 230 ? 1 : 1 + (registers - 230) / 200;
    const double resident = std::max(1.0, std::min(std::floor(kRegisters / (std::min(registers, 255.0) * warps * 32)),
                                                   kSharedBytes / ((bm + 2 * bn * stages) * 128)));
    return 100 * (1 + 12 / bm + 8 / bn) * spills * (1 + 0.35 / (resident * warps / 8)) * (stages == 1 ? 1.12 : 1) *
           (stages == 3 && bn == 128 ? 1.1 : 1);
  };
  const TimeOf model = [](const Config& c) {
    return 100 * (1 + 4 / at(c, "BM") + 4 / at(c, "BN")) * (1 + 0.05 * (3 - at(c, "num_stages")));
  };
  return surface(
      "attention",
      {{"BM", {16, 32, 64, 128}}, {"BN", {32, 64, 128, 256}}, {"num_warps", {4, 8}}, {"num_stages", {1, 2, 3}}},
      time_of, model, 0.01, variant);
}

// ---- bowls: the model's is somewhere else

Surface bowl(std::string name, double steepness, double spikes, uint64_t variant) {
  const Axes axes = {{"A", {1, 2, 4, 8, 16}}, {"B", {1, 2, 4, 8}}, {"C", {1, 2, 4, 8}}};
  std::mt19937_64 random(variant * 7919 + static_cast<uint64_t>(steepness * 1000));
  auto somewhere = [&] {
    Config out;
    for (const dsl::SpaceAxis& axis : axes) out[axis.name] = axis.values[random() % axis.values.size()];
    return out;
  };
  auto away = [](const Config& config, const Config& from, double cost) {
    double squares = 0;
    for (const auto& [axis, value] : from) {
      squares += std::pow(std::log2(static_cast<double>(config.at(axis)) / static_cast<double>(value)), 2);
    }
    return 1000 * std::exp(cost * squares);
  };
  const Config best = somewhere(), believed = somewhere();
  return surface(
      std::move(name), axes,
      [=](const Config& c) {
        const bool spike = c != best && std::erfc(noise_of(c, variant + 100) / std::sqrt(2.0)) / 2 < spikes;
        return away(c, best, steepness) * (spike ? 2 : 1);
      },
      [=](const Config& c) { return away(c, believed, 0.1); }, 0.008, variant);
}

}  // namespace

std::vector<Surface> all(uint64_t variant) {
  const Axes square = {{"BR", {16, 32, 64, 128}}, {"BC", {16, 32, 64, 128}}, {"num_warps", {4, 8}}};
  const Axes flat = {{"BR", {1, 2, 4, 8, 16}}, {"BC", {256, 512, 1024, 2048, 4096}}};
  return {
      product("product 4096", 4096, 4096, 4096, false, variant),
      product("product 1024", 1024, 1024, 1024, false, variant),
      product("product 64x14336x4096", 64, 14336, 4096, false, variant),
      product("product 2048x6144x4096", 2048, 6144, 4096, false, variant),
      product("product 4096, few configs", 4096, 4096, 4096, true, variant),
      row_kernel("softmax of 1024", 16384, 1024, {1024, 2048, 4096, 8192}, variant),
      row_kernel("layer norm of 4096", 16384, 4096, {1024, 4096, 8192, 16384}, variant),
      row_kernel("cumulative sums of 8192", 8192, 8192, {256, 1024, 2048, 4096}, variant),
      row_kernel("rows of 3000", 4096, 3000, {256, 512, 1024, 2048, 4096, 8192}, variant),
      tiles("transpose", 64e6, square, variant),
      tiles("bias and GELU", 64e6, flat, variant),
      columns(8192, 8192, variant),
      attention(variant),
      bowl("a flat bowl", 0.04, 0, variant),
      bowl("a steep bowl", 0.2, 0, variant),
      bowl("a bowl with spikes", 0.1, 0.05, variant),
  };
}

}  // namespace kiln::autotune::surfaces
