#include "run_options.h"

#include <algorithm>

namespace kiln::c {

std::function<void(const dsl::PrintRecord&)> print_to(kiln_print_fn print, void* data) {
  if (print == nullptr) return nullptr;
  return [print, data](const dsl::PrintRecord& record) { print(dsl::to_string(record).c_str(), data); };
}

Result<std::map<std::string, int64_t>> named_ints(const kiln_named_int* list, size_t count, const char* what) {
  if (auto fine = check_pointer(list, count, what); !fine) return fine.error();
  std::map<std::string, int64_t> out;
  for (size_t i = 0; i < count; ++i) {
    if (list[i].name == nullptr) return null_argument((std::string(what) + "[" + std::to_string(i) + "].name").c_str());
    if (!out.emplace(list[i].name, list[i].value).second) {
      return invalid_argument("`" + std::string(what) + "` has `" + list[i].name + "` twice");
    }
  }
  return out;
}

Result<void> KnownRunOptions::read(const kiln_run_options* given, Place& place) {
  if (given == nullptr) return {};
  auto known = read_options(given, "kiln_run_options");
  if (!known) return known.error();
  if (known->threads < 0) return invalid_argument("`threads` is " + std::to_string(known->threads));
  options.threads = known->threads;
  if (known->size_count > 0) {
    auto sizes = named_ints(known->sizes, known->size_count, "sizes");
    if (!sizes) return sizes.error();
    options.sizes = std::move(*sizes);
  }
  options.memory_limit = known->memory_limit;
  options.print = print_to(known->print, known->print_data);
  if (known->cancel != nullptr) {
    auto cancel = pin<CancelObject>(known->cancel, "cancel");
    if (!cancel) return cancel.error();
    cancel_ = std::move(*cancel);
    options.cancel = cancel_->source.get_token();
  }
  if (known->stream != nullptr) {
    auto stream = pin<StreamObject>(known->stream, "stream");
    if (!stream) return stream.error();
    stream_ = std::move(*stream);
    options.stream = &stream_->stream;
    if (place.device == stream_->place.device) place = stream_->place;
  }
  if (known->launch_ms != nullptr) {
    options.launch_ms = &times_;
    times_out_ = known->launch_ms;
  }
  return {};
}

void KnownRunOptions::give_times() const {
  if (times_out_ != nullptr) std::ranges::copy(times_, times_out_);
}

}  // namespace kiln::c
