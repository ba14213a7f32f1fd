// Any bytes as a stream between client and daemon: frames or an error, and the same whatever the pieces they come in;
// and as what frames carry: JSON headers, a COMPILE's body, a cache entry.
#include <algorithm>

#include "check.h"
#include "kiln/wire/entry.h"
#include "kiln/wire/json.h"
#include "kiln/wire/messages.h"

namespace kiln::fuzz {
namespace {

using Bytes = std::span<const std::byte>;

template <class T>
void check_round_trip(const Result<T>& message, Result<T> (*parse)(std::string_view)) {
  if (!message) return check_refusal(message.error());
  const std::string text = wire::to_text(*message);
  const auto again = parse(text);
  expect(again, "what a message is written as parses", text);
  check(wire::to_text(*again) == text, "a message survives writing and reading", text);
}

void check_json(const std::string& text) {
  check_round_trip(wire::parse_welcome(text), &wire::parse_welcome);
  check_round_trip(wire::parse_hello(text), &wire::parse_hello);
  check_round_trip(wire::parse_compile_header(text), &wire::parse_compile_header);
  check(!wire::to_text(wire::parse_error(text)).empty(), "any text gives an error");
}

void check_body(Bytes body) {
  if (auto parts = wire::split_compile_body(body)) {
    check(parts->canonical.size() + parts->debug.size() + 4 == body.size(), "a body is split without rest");
  } else {
    check_refusal(parts.error());
  }
  // A damaged entry is an internal error by contract: the caller drops it and compiles again.
  if (auto entry = wire::decode_entry(body)) (void)wire::to_artifact(*entry);
}

// Feeds the stream in pieces of at most `step` bytes. Gives one line a frame, and how it ended.
std::string frames_of(Bytes stream, size_t step, bool look_inside) {
  wire::FrameDecoder decoder;
  std::string out;
  while (!stream.empty()) {
    auto used = decoder.feed(stream.first(std::min(step, stream.size())));
    if (!used) {
      check_refusal(used.error());
      return out + "error: " + used.error().message;
    }
    check(*used > 0 && *used <= stream.size(), "a decoder takes what it was given");
    stream = stream.subspan(*used);
    if (!decoder.complete()) continue;
    const wire::Frame frame = decoder.take();
    if (look_inside) {
      check_json(frame.json);
      check_body(frame.body);
    }
    out += std::to_string(static_cast<int>(frame.type())) + " " + std::to_string(frame.id()) + " " + frame.json + " " +
           std::to_string(frame.body.size()) + "\n";
  }
  return out + (decoder.mid_frame() ? "mid frame" : "end");
}

}  // namespace
}  // namespace kiln::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const std::string whole = kiln::fuzz::frames_of(bytes, size, true);
  kiln::fuzz::check(whole == kiln::fuzz::frames_of(bytes, 7, false), "frames do not depend on the pieces", whole);
  kiln::fuzz::check_json({reinterpret_cast<const char*>(data), size});
  kiln::fuzz::check_body(bytes);
  return 0;
}
