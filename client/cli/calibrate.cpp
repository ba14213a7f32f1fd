// Files are read three times: for the ends of their values, for histograms between these, and for what the scales that
// follow lose. One is in memory at a time.
#include "calibrate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "kiln/client/npy.h"
#include "kiln/dsl/scalar_cast.h"
#include "kiln/wire/files.h"
#include "kiln/wire/printable.h"
#include "ranges.h"

namespace kiln::cli {
namespace {

namespace fs = std::filesystem;
using dsl::ElementType;

struct Tensor {
  std::string name;
  std::vector<std::string> files;
};

// Of a directory its .npy files, by name.
Result<std::vector<std::string>> files_of(const std::string& path) {
  std::error_code failed;
  if (!fs::is_directory(path, failed)) return std::vector<std::string>{path};
  std::vector<std::string> out;
  for (fs::directory_iterator at(path, failed), end; !failed && at != end; at.increment(failed)) {
    if (at->path().extension() == ".npy") out.push_back(at->path().string());
  }
  if (failed) return invalid_argument(path + ": cannot be listed: " + failed.message());
  if (out.empty()) return invalid_argument(path + ": has no .npy files");
  std::ranges::sort(out);
  return out;
}

Result<std::vector<Tensor>> tensors_of(const std::vector<std::string>& texts) {
  std::vector<Tensor> out;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      return invalid_argument(text + ": write NAME=FILE.npy or NAME=DIRECTORY");
    }
    auto files = files_of(text.substr(equals + 1));
    if (!files) return files.error();
    const std::string name = text.substr(0, equals);
    auto known = std::ranges::find(out, name, &Tensor::name);
    if (known == out.end()) known = out.insert(out.end(), {name, {}});
    known->files.insert(known->files.end(), files->begin(), files->end());
  }
  return out;
}

// An array's elements, and which channel each is of.
struct Sample {
  client::NpyArray array;
  ElementType type = ElementType::kF32;
  int64_t channels = 1, inner = 1;  // element i is of channel i / inner % channels

  double at(int64_t i) const {
    uint64_t bits = 0;
    const auto bytes = static_cast<size_t>(dsl::info(type).bytes);
    std::memcpy(&bits, array.data() + static_cast<size_t>(i) * bytes, bytes);
    return dsl::double_from_bits(type, bits);
  }
  size_t channel(int64_t i) const { return static_cast<size_t>(i / inner % channels); }
};

Result<Sample> read_sample(const std::string& file, int axis) {
  auto array = client::read_npy(file);
  if (!array) return array.error();
  Sample out{std::move(*array)};
  const auto floats = {ElementType::kF32, ElementType::kF64, ElementType::kF16};
  const auto type = std::ranges::find(floats, out.array.dtype, client::npy_dtype);
  if (type == floats.end()) {
    return invalid_argument(file + ": the file holds '" + out.array.dtype + "', and samples are of f32, f64 or f16");
  }
  out.type = *type;
  if (axis < 0) return out;
  const std::vector<int64_t>& shape = out.array.shape;
  if (static_cast<size_t>(axis) >= shape.size()) {
    return invalid_argument(file + ": has no axis " + std::to_string(axis) + ", its shape is " +
                            client::shape_text(shape));
  }
  out.channels = shape[static_cast<size_t>(axis)];
  for (size_t i = static_cast<size_t>(axis) + 1; i < shape.size(); ++i) out.inner *= shape[i];
  return out;
}

// What the quantised values are worth: energies of the values, and of what they lose.
struct Loss {
  double energy = 0, error = 0;
  int64_t saturated = 0;
};

class Calibration {
 public:
  Calibration(const CalibrateFlags& flags, const Tensor& tensor)
      : flags_(flags), tensor_(tensor), type_(flags.type == "i8" ? Quantised::kI8 : Quantised::kU8) {}

  Result<void> run() {
    auto done = each([&](size_t channel, double x) { spreads_[channel].see(x); });
    if (done) done = each([&](size_t channel, double x) { spreads_[channel].count(x); });
    if (!done) return done;
    for (const Spread& spread : spreads_) {
      by_.push_back(spread.quantiser(type_, *parse_range_method(flags_.method), flags_.percent));
    }
    return each([&](size_t channel, double x) {
      const double lost = x - by_[channel].back(x);
      loss_.energy += x * x;
      loss_.error += lost * lost;
      loss_.saturated += by_[channel].saturates(x);
    });
  }

  nlohmann::ordered_json json() const {
    nlohmann::ordered_json out;
    std::vector<float> scales;
    std::vector<int> zeros;
    for (const Quantiser& by : by_) {
      scales.push_back(by.scale);
      zeros.push_back(by.zero);
    }
    if (flags_.axis < 0) {
      out = {{"scale", scales[0]}, {"zero", zeros[0]}};
    } else {
      out = {{"axis", flags_.axis}, {"scale", scales}, {"zero", zeros}};
    }
    out["min"] = low();
    out["max"] = high();
    out["samples"] = tensor_.files.size();
    out["elements"] = elements_;
    out["snr_db"] = snr() ? nlohmann::ordered_json(*snr()) : nlohmann::ordered_json();
    out["saturated"] = saturated();
    return out;
  }

  std::string line() const {
    char numbers[160];
    const std::string about = flags_.axis < 0 ? "" : "  " + std::to_string(by_.size()) + " channels";
    std::snprintf(numbers, sizeof numbers, "  [%.6g, %.6g]  scale %.6g  zero %d  saturated %.3g %%  snr ", low(),
                  high(), double{by_[0].scale}, by_[0].zero, 100 * saturated());
    char decibels[32] = "exact";
    if (snr()) std::snprintf(decibels, sizeof decibels, "%.1f dB", *snr());
    return wire::printable(tensor_.name) + numbers + decibels + about;
  }

 private:
  // Every element of every file, with its channel.
  template <class F>
  Result<void> each(F f) {
    elements_ = 0;
    for (const std::string& file : tensor_.files) {
      auto sample = read_sample(file, flags_.axis);
      if (!sample) return sample.error();
      if (spreads_.empty()) spreads_.assign(static_cast<size_t>(sample->channels), Spread(flags_.bins));
      if (static_cast<size_t>(sample->channels) != spreads_.size()) {
        return invalid_argument(file + ": axis " + std::to_string(flags_.axis) + " has " +
                                std::to_string(sample->channels) + " channels, that of the files before " +
                                std::to_string(spreads_.size()));
      }
      const int64_t count = sample->array.count();
      for (int64_t i = 0; i < count; ++i) {
        const double x = sample->at(i);
        if (!std::isfinite(x)) {
          return invalid_argument(file + ": element " + std::to_string(i) + " is " +
                                  (std::isnan(x) ? "NaN" : "infinite"));
        }
        f(sample->channel(i), x);
      }
      elements_ += count;
    }
    return elements_ > 0 ? Result<void>() : invalid_argument(tensor_.name + ": its samples have no elements");
  }

  double low() const { return std::ranges::min_element(spreads_, {}, &Spread::low)->low(); }
  double high() const { return std::ranges::max_element(spreads_, {}, &Spread::high)->high(); }
  // None where nothing is lost.
  std::optional<double> snr() const {
    if (loss_.error == 0) return std::nullopt;
    return 10 * std::log10(loss_.energy / loss_.error);
  }
  double saturated() const { return static_cast<double>(loss_.saturated) / static_cast<double>(elements_); }

  const CalibrateFlags& flags_;
  const Tensor& tensor_;
  Quantised type_;
  std::vector<Spread> spreads_;
  std::vector<Quantiser> by_;
  Loss loss_;
  int64_t elements_ = 0;
};

}  // namespace

Result<void> calibrate(const CalibrateFlags& flags) {
  if (flags.axis >= 0 && flags.method == "entropy") {
    return invalid_argument("--axis: the method `entropy` is for whole tensors");
  }
  auto tensors = tensors_of(flags.tensors);
  if (!tensors) return tensors.error();
  if (auto writable = wire::check_writable(flags.output); !writable) return writable;
  nlohmann::ordered_json out = {{"type", flags.type}, {"method", flags.method}};
  if (flags.method == "percentile") out["percent"] = flags.percent;
  out["tensors"] = nlohmann::ordered_json::object();
  for (const Tensor& tensor : *tensors) {
    Calibration calibration(flags, tensor);
    if (auto done = calibration.run(); !done) return done;
    std::printf("%s\n", calibration.line().c_str());
    out["tensors"][tensor.name] = calibration.json();
  }
  return wire::write_text(flags.output, out.dump(2) + "\n");
}

void add_calibrate_command(CLI::App& app, CalibrateFlags& flags, std::function<Result<void>()>& action) {
  CLI::App* command = app.add_subcommand("calibrate", "Find the scales of quantised tensors in samples of them");
  command->add_option("tensors", flags.tensors, "NAME=FILE.npy or NAME=DIRECTORY of such; a name may be repeated")
      ->required();
  command->add_option("-o,--output", flags.output, "The JSON of scales to write")->required();
  command->add_option("--type", flags.type, "i8: symmetric; u8: with a zero point")
      ->check(CLI::IsMember({"i8", "u8"}))
      ->capture_default_str();
  command->add_option("--method", flags.method, "Which values are to be in range")
      ->check(CLI::IsMember({"minmax", "percentile", "entropy"}))
      ->capture_default_str();
  command->add_option("--percent", flags.percent, "So many of the values, for `percentile`")
      ->check(CLI::Range(50.0, 100.0))
      ->capture_default_str();
  command->add_option("--bins", flags.bins, "Of the histogram of magnitudes")
      ->check(CLI::Range(256, 65536))
      ->capture_default_str();
  command->add_option("--axis", flags.axis, "A scale for each index of this axis, as for weights")
      ->check(CLI::Range(0, 31));
  command->callback([&] { action = [&] { return calibrate(flags); }; });
}

}  // namespace kiln::cli
