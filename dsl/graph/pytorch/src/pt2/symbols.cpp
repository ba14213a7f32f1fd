#include "pt2/symbols.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

namespace kiln::graph::pt2 {
namespace {

constexpr int kMaxDepth = 64;
constexpr size_t kMaxText = 16 << 10;
constexpr size_t kMaxTerms = 256;  // of a polynomial

bool is_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

// Recursive descent over one text; the first error stays.
class Reader {
 public:
  Reader(std::string_view text, const SymbolRanges& ranges) : text_(text), ranges_(ranges) {}

  Result<Dim> run() {
    Dim out = sum(0);
    skip_space();
    if (error_.empty() && at_ != text_.size()) fail("unexpected `" + std::string(1, text_[at_]) + "`");
    if (!error_.empty()) return invalid_argument("the size `" + std::string(text_) + "`: " + error_);
    return out;
  }

 private:
  Dim fail(std::string what) {
    if (error_.empty()) error_ = std::move(what);
    at_ = text_.size();
    return {};
  }

  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  bool take(std::string_view token) {
    skip_space();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  Dim sum(int depth) {
    if (depth > kMaxDepth) return fail("nested too deeply");
    Dim out = product(depth);
    while (error_.empty()) {
      if (take("+")) {
        out = out + product(depth);
      } else if (take("-")) {
        out = out - product(depth);
      } else {
        return out;
      }
    }
    return {};
  }

  Dim product(int depth) {
    Dim out = factor(depth);
    while (error_.empty()) {
      if (take("//")) {
        out = out / factor(depth);
      } else if (take("*")) {
        out = times(out, factor(depth));
      } else if (take("%")) {
        out = out % factor(depth);
      } else {
        return out;
      }
    }
    return {};
  }

  Dim times(const Dim& a, const Dim& b) {
    if (a.expr().terms().size() * b.expr().terms().size() > kMaxTerms) return fail("a product of too many terms");
    return a * b;
  }

  Dim factor(int depth) {
    if (depth > kMaxDepth) return fail("nested too deeply");
    if (take("-")) return Dim(0) - factor(depth + 1);
    Dim base = atom(depth);
    if (!take("**")) return base;
    return power(base, factor(depth + 1));
  }

  Dim power(const Dim& base, const Dim& exponent) {
    constexpr int64_t kMaxPower = 8;
    const auto n = exponent.expr().as_constant();
    if (!n || *n < 0 || *n > kMaxPower) return fail("a power that is no small number");
    Dim out = 1;
    for (int64_t i = 0; i < *n; ++i) out = times(out, base);
    return out;
  }

  std::string_view name() {
    skip_space();
    const size_t start = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  }

  Dim atom(int depth) {
    if (take("(")) {
      Dim out = sum(depth + 1);
      return take(")") ? out : fail("`)` is missing");
    }
    const std::string_view word = name();
    if (word.empty())
      return fail(at_ < text_.size() ? "unexpected `" + std::string(1, text_[at_]) + "`" : "ends early");
    if (word[0] >= '0' && word[0] <= '9') return number(word);
    return take("(") ? call(word, depth) : symbol(word);
  }

  Dim number(std::string_view word) {
    int64_t value = 0;
    const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (status != std::errc() || end != word.data() + word.size())
      return fail("`" + std::string(word) + "` is no size");
    return value;
  }

  Dim symbol(std::string_view word) {
    const auto found = ranges_.find(word);
    if (found == ranges_.end()) return dim(std::string(word), 0);
    return dim(std::string(word), found->second.low, found->second.high);
  }

  // Symbol('s0', positive=True, integer=True)
  Dim quoted_symbol() {
    if (!take("'")) return fail("a symbol without its name");
    const std::string_view word = name();
    if (word.empty() || !take("'")) return fail("a symbol's name is not a word");
    while (take(",")) {
      name();
      if (!take("=")) return fail("a symbol's property without a value");
      name();
    }
    return take(")") ? symbol(word) : fail("`)` is missing");
  }

  std::vector<Dim> operands(int depth) {
    std::vector<Dim> out;
    if (take(")")) return out;
    while (error_.empty()) {
      out.push_back(sum(depth + 1));
      if (take(")")) return out;
      if (!take(",")) fail("`)` is missing");
    }
    return out;
  }

  Dim call(std::string_view function, int depth) {
    if (function == "Symbol") return quoted_symbol();
    const std::vector<Dim> x = operands(depth);
    if (!error_.empty()) return {};
    const auto is = [&](std::initializer_list<std::string_view> names) {
      return std::find(names.begin(), names.end(), function) != names.end();
    };
    const auto folded = [&](auto op) {
      Dim out = x[0];
      for (size_t i = 1; i < x.size(); ++i) out = op(out, x[i]);
      return out;
    };
    if (x.empty()) return fail("`" + std::string(function) + "` of nothing");
    if (is({"Add"})) return folded([](const Dim& a, const Dim& b) { return a + b; });
    if (is({"Mul"})) return folded([&](const Dim& a, const Dim& b) { return times(a, b); });
    if (is({"Max"})) return folded([](const Dim& a, const Dim& b) { return max(a, b); });
    if (is({"Min"})) return folded([](const Dim& a, const Dim& b) { return min(a, b); });
    if (is({"Integer", "Identity"}) && x.size() == 1) return x[0];
    if (x.size() == 2) {
      if (is({"FloorDiv", "CleanDiv"})) return x[0] / x[1];
      if (is({"Mod", "PythonMod"})) return x[0] % x[1];
      if (is({"Pow", "PowByNatural"})) return power(x[0], x[1]);
    }
    return fail("there are no sizes with `" + std::string(function) + "`");
  }

  std::string_view text_;
  const SymbolRanges& ranges_;
  size_t at_ = 0;
  std::string error_;
};

}  // namespace

Result<Dim> read_dim(std::string_view text, const SymbolRanges& ranges) {
  if (text.size() > kMaxText) return invalid_argument("a size of " + std::to_string(text.size()) + " characters");
  return Reader(text, ranges).run();
}

}  // namespace kiln::graph::pt2
