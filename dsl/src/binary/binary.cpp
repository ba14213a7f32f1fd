// Requests and kernels as bytes; the records are built and read by binary_encode.cpp and binary_decode.cpp.
#include "kiln/dsl/binary.h"

#include "binary/binary_format.h"
#include "ir/kernel_limits.h"
#include "kiln/dsl/canonical.h"
#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/verify.h"
#include "kiln/dsl/walk.h"

namespace kiln::dsl {
namespace {

constexpr size_t kMaxBytes = 16u << 20;
// Arrays within arrays: regions take two levels each, expressions three.
constexpr size_t kMaxNesting = 3 * (kMaxRegionDepth + kMaxExprDepth) + 16;

// nlohmann's reader and its values recurse; nesting is bounded by an event reader before a value is built.
class NestingGuard : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return false; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return false; }
  bool key(string_t&) override { return false; }
  bool end_object() override { return false; }
  bool start_array(size_t) override { return ++depth_ <= kMaxNesting; }
  bool end_array() override { return depth_-- > 0; }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  size_t depth_ = 0;
};

}  // namespace

Json from_bytes(std::span<const std::byte> bytes, const char* what) {
  if (bytes.size() > kMaxBytes) throw BadBytes{std::string(what) + " is too large"};
  const auto* begin = reinterpret_cast<const uint8_t*>(bytes.data());
  NestingGuard guard;
  if (!Json::sax_parse(begin, begin + bytes.size(), &guard, Json::input_format_t::cbor)) {
    throw BadBytes{std::string(what) + " is not well-formed"};
  }
  return Json::from_cbor(begin, begin + bytes.size(), true, false);
}

namespace {

// Adds names, then verifies; the last step of every reader.
void finish(std::span<const std::byte> debug, Kernel& kernel) {
  if (debug.empty())
    name_by_position(kernel);
  else
    decode_debug(from_bytes(debug, "the debug section"), kernel);
  if (auto valid = verify(kernel); !valid) throw valid.error();
}

// Runs a reader; what it throws becomes an Error, here and nowhere else.
template <class Read>
auto guarded(const char* what, Read read) -> Result<decltype(read())> {
  try {
    return read();
  } catch (const BadBytes& bad) {
    return invalid_argument(std::string(what) + ": " + bad.what);
  } catch (const Error& bad) {
    return bad;
  }
}

// The constexprs' values, and behind them those of schedule options where any is chosen; 0 for the others.
std::vector<int64_t> config_numbers(const Kernel& kernel, const ConstexprValues& values) {
  std::vector<int64_t> config, options;
  for (const Constexpr& item : kernel.constexprs) config.push_back(values.at(item.name));
  bool chosen = false;
  for (const target::ScheduleOption& option : target::schedule_options()) {
    const int64_t value = schedule_option(values, option.name);
    options.push_back(value == option.none ? 0 : value);
    chosen = chosen || options.back() != 0;
  }
  if (!chosen) return config;
  while (options.size() > 2 && options.back() == 0) options.pop_back();  // as it was before these came
  config.insert(config.end(), options.begin(), options.end());
  return config;
}

void write_numbers(const std::vector<int64_t>& numbers, CborWriter& out) {
  out.array(numbers.size());
  for (int64_t number : numbers) out.integer(number);
}

ConstexprValues decode_config(const Json& config, const Kernel& kernel) {
  const size_t count = kernel.constexprs.size();
  const auto options = target::schedule_options();
  as_array(config, "the config", count + options.size());
  ConstexprValues out;
  for (size_t i = 0; i < count; ++i) out[kernel.constexprs[i].name] = as_int(field(config, i), "a constexpr's value");
  if (config.size() == count) return out;
  for (size_t i = 0; i < std::min(options.size(), config.size() - count); ++i) {
    const int64_t value = as_int(field(config, count + i), "a schedule option's value");
    if (value == 0) continue;
    if (auto fine = check_schedule_option(options[i].name, value); !fine) throw BadBytes{fine.error().message};
    out[std::string(options[i].name)] = value;
  }
  return out;
}

void append_section(std::vector<std::byte>& out, const std::vector<std::byte>& section) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<std::byte>(section.size() >> shift & 0xff));
  out.insert(out.end(), section.begin(), section.end());
}

std::span<const std::byte> take_section(std::span<const std::byte>& rest) {
  if (rest.size() < 4) throw BadBytes{"a section is cut short"};
  size_t size = 0;
  for (size_t i = 0; i < 4; ++i) size |= static_cast<size_t>(rest[i]) << (8 * i);
  if (rest.size() - 4 < size) throw BadBytes{"a section is cut short"};
  auto section = rest.subspan(4, size);
  rest = rest.subspan(4 + size);
  return section;
}

}  // namespace

bool reports_lines(const Kernel& kernel) {
  return kernel.options.names_lines() || kernel.options.check_bounds ||
         any_op(kernel, [](const Op& op) { return op.code == OpCode::kPrint; });
}

Result<RequestEncoder> RequestEncoder::create(std::shared_ptr<const Kernel> kernel) {
  if (auto valid = verify(*kernel); !valid) return valid.error();
  RequestEncoder out;
  const Kernel canonical = canonicalise(*kernel);
  CborWriter head(out.head_), lines(out.lines_), debug(out.debug_);
  write_canonical_fields(canonical, head);
  if (reports_lines(canonical)) write_lines(canonical, lines);
  write_debug(canonical, debug);
  out.kernel_ = std::move(kernel);
  return out;
}

Result<RequestEncoder> RequestEncoder::of_encoded(std::shared_ptr<const Kernel> kernel,
                                                  std::span<const std::byte> encoded) {
  return guarded("kernel", [&] {
    RequestEncoder out;
    const auto record = take_section(encoded), debug = take_section(encoded);
    std::vector<std::byte> array;
    CborWriter(array).array(kCanonicalFields);
    if (record.size() < array.size() || !std::equal(array.begin(), array.end(), record.begin())) {
      throw BadBytes{"the canonical section is another"};
    }
    out.head_.assign(record.begin() + static_cast<std::ptrdiff_t>(array.size()), record.end());
    out.debug_.assign(debug.begin(), debug.end());
    out.kernel_ = std::move(kernel);
    return out;
  });
}

Result<RequestBytes> RequestEncoder::encode(const std::string& target, const ConstexprValues& constexprs,
                                            const Facts& facts, const std::string& emit) const {
  auto values = complete_constexprs(*kernel_, constexprs, target);
  if (!values) return values.error();
  if (facts.size() > kernel_->params.size()) {
    return invalid_argument("kernel `" + kernel_->name + "`: there are more facts than parameters");
  }
  std::vector<int64_t> known;
  for (ParamFact fact : facts) known.push_back(static_cast<int64_t>(fact));
  // Facts may be given shorter than the list; one form for both.
  while (!known.empty() && known.back() == static_cast<int64_t>(ParamFact::kNone)) known.pop_back();
  // The usual output is not written, so that a cache of code knows one form of it.
  const bool names_output = !lines_.empty() || emit != CompileRequest{}.emit;
  RequestBytes out{{}, debug_};
  out.canonical.reserve(head_.size() + lines_.size() + 256);
  CborWriter record(out.canonical);
  record.array(kCanonicalFields + 3 + (names_output ? 1 : 0) + (lines_.empty() ? 0 : 1));
  out.canonical.insert(out.canonical.end(), head_.begin(), head_.end());
  record.text(target);
  write_numbers(config_numbers(*kernel_, *values), record);
  write_numbers(known, record);
  if (names_output) record.text(emit);
  out.canonical.insert(out.canonical.end(), lines_.begin(), lines_.end());
  return out;
}

Result<RequestBytes> encode_request(const CompileRequest& request) {
  // Borrowed: the encoder goes before the request does.
  auto encoder = RequestEncoder::create({std::shared_ptr<const void>(), &request.kernel});
  if (!encoder) return encoder.error();
  return encoder->encode(request.target, request.constexprs, request.facts, request.emit);
}

Result<CompileRequest> decode_request(std::span<const std::byte> canonical, std::span<const std::byte> debug) {
  return guarded("compile request", [&] {
    const Json record = from_bytes(canonical, "the canonical section");
    CompileRequest out{
        decode_canonical(record), as_text(field(record, 7), "the target"), {}, {}, CompileRequest{}.emit};
    finish(debug, out.kernel);
    out.constexprs = decode_config(field(record, 8), out.kernel);
    for (const Json& fact : as_array(field(record, 9), "the facts", out.kernel.params.size())) {
      out.facts.push_back(
          static_cast<ParamFact>(as_uint(fact, "a fact", static_cast<uint64_t>(ParamFact::kMultiple8))));
    }
    if (record.size() > 10) out.emit = as_text(field(record, 10), "the output");
    if (record.size() > 11) decode_lines(field(record, 11), out.kernel);
    return out;
  });
}

std::vector<std::byte> encode_kernel(const Kernel& kernel) {
  const Kernel canonical = canonicalise(kernel);
  std::vector<std::byte> record, debug, out;
  CborWriter record_writer(record), debug_writer(debug);
  record_writer.array(kCanonicalFields);
  write_canonical_fields(canonical, record_writer);
  write_debug(canonical, debug_writer);
  append_section(out, record);
  append_section(out, debug);
  return out;
}

Result<Kernel> decode_kernel(std::span<const std::byte> bytes) {
  return guarded("kernel", [&] {
    std::span<const std::byte> rest = bytes;
    Kernel kernel = decode_canonical(from_bytes(take_section(rest), "the canonical section"));
    finish(take_section(rest), kernel);
    if (!rest.empty()) throw BadBytes{"there are bytes behind the debug section"};
    return kernel;
  });
}

}  // namespace kiln::dsl
