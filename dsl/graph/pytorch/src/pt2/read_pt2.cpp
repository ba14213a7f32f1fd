// read_pt2: an archive, its program and its weights.
#include <algorithm>
#include <limits>

#include "kiln/dsl/types.h"
#include "kiln/graph/pt2.h"
#include "pt2/archive.h"
#include "pt2/values.h"

namespace kiln::graph {
namespace {

using namespace pt2;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string trimmed(std::string_view text) {
  const size_t end = text.find_last_not_of(" \n\r\t");
  return std::string(text.substr(0, end == std::string_view::npos ? 0 : end + 1));
}

const std::span<const std::byte>* member(const Archive& archive, std::string_view name) {
  const auto found = archive.members.find(name);
  return found == archive.members.end() ? nullptr : &found->second;
}

// "model": the file of the program that was asked for.
std::string choose_model(const Archive& archive, std::string_view asked) {
  constexpr std::string_view kFolder = "models/", kEnd = ".json";
  std::vector<std::string> names;
  for (const auto& [path, bytes] : archive.members) {
    if (!path.starts_with(kFolder) || !path.ends_with(kEnd)) continue;
    names.push_back(path.substr(kFolder.size(), path.size() - kFolder.size() - kEnd.size()));
  }
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "`" : ", `") + name + "`";
  if (names.empty()) {
    const bool old = member(archive, "serialized_exported_program.json") != nullptr;
    bad(old ? "was saved by an older PyTorch: save it again with 2.8 or later"
            : "has no program in `models/`: was it saved by torch.export.save?");
  }
  if (asked.empty()) {
    if (names.size() > 1) bad("has several models: " + all);
    return names[0];
  }
  if (std::ranges::find(names, asked) == names.end()) bad("has no model `" + std::string(asked) + "`; it has " + all);
  return std::string(asked);
}

void check_format(const Archive& archive) {
  const auto* order = member(archive, "byteorder");
  if (order && trimmed(text_of(*order)) != "little") bad("is of byte order `" + trimmed(text_of(*order)) + "`");
  const auto* format = member(archive, "archive_format");
  if (format && trimmed(text_of(*format)) != "pt2") bad("is of format `" + trimmed(text_of(*format)) + "`");
}

int64_t known_size(const json& value, const char* name) {
  const int64_t out = integer(field(value, "as_int"), name);
  if (out < 0 || out > DimInfo::kMost) bad("a size of " + std::to_string(out));
  return out;
}

// How many elements behind the first one the array reaches; an error where that is absurd.
int64_t reach_of(const Array& array) {
  int64_t last = 0;
  for (size_t i = 0; i < array.shape.size(); ++i) {
    if (array.shape[i] == 0) return 0;
    int64_t step = 0;
    if (__builtin_mul_overflow(array.shape[i] - 1, array.strides[i], &step) ||
        __builtin_add_overflow(last, step, &last)) {
      bad("its sizes overflow");
    }
  }
  return last + 1;
}

// A tensor of the archive: `payload` is its entry of a config file.
Array array_of_payload(const json& payload, const Archive& archive, const std::string& folder) {
  if (truth(field(payload, "use_pickle"), "use_pickle")) {
    bad("is a pickle (an object or a tensor of another kind), which only Python can read");
  }
  const json& meta = field(payload, "tensor_meta");
  Array out;
  out.element = element_type(field(meta, "dtype"));
  for (const json& size : list(meta, "sizes")) out.shape.push_back(known_size(size, "sizes"));
  for (const json& stride : list(meta, "strides")) out.strides.push_back(known_size(stride, "strides"));
  if (out.strides.size() != out.shape.size()) bad("has other strides than sizes");
  const int64_t offset = known_size(field(meta, "storage_offset"), "storage_offset");
  const std::string path = folder + text_field(payload, "path_name");
  const auto* bytes = member(archive, path);
  if (!bytes) bad("its bytes, `" + path + "`, are not in the file");
  const int64_t width = dsl::info(out.element).bytes, reach = reach_of(out);
  const auto room = static_cast<int64_t>(bytes->size()) / width;
  if (reach > 0 && (reach > room || offset > room - reach)) {
    bad("needs " + std::to_string(offset + reach) + " elements, and `" + path + "` has " + std::to_string(room));
  }
  out.data = bytes->data() + (reach > 0 ? offset * width : 0);
  return out;
}

// Adds the config file's entries to `found`, by the weights' names.
void read_payloads(const Archive& archive, const std::string& folder, const std::string& config,
                   std::map<std::string, Array>& found) {
  const auto* bytes = member(archive, folder + config);
  if (!bytes) return;
  const json entries = json::parse(text_of(*bytes), nullptr, false);
  if (entries.is_discarded()) bad("`" + folder + config + "` is no JSON");
  for (const auto& [name, payload] : field(entries, "config").items()) {
    try {
      found[name] = array_of_payload(payload, archive, folder);
    } catch (const BadField& failed) {
      bad("weight `" + name + "` " + failed.what());
    }
  }
}

bool has_shape(const Array& array, const AtenInput& input) {
  return array.element == input.element &&
         std::ranges::equal(array.shape, input.shape,
                            [](int64_t known, const Dim& declared) { return declared.expr().as_constant() == known; });
}

void set_weights(const Archive& archive, const std::string& name, Pt2Model& model) {
  std::map<std::string, Array> found;
  read_payloads(archive, "data/weights/", name + "_weights_config.json", found);
  read_payloads(archive, "data/constants/", name + "_constants_config.json", found);
  for (Pt2Weight& weight : model.weights) {
    const auto at = found.find(weight.name);
    if (at == found.end()) bad("the weight `" + weight.name + "` is not in the file");
    weight.values = at->second;
    const auto input = std::ranges::find(model.program.inputs, weight.input, &AtenInput::name);
    if (!has_shape(weight.values, *input))
      bad("the weight `" + weight.name + "` is of another type than in the program");
  }
}

}  // namespace

Result<Pt2Model> read_pt2(const std::string& path, std::string_view name) {
  auto archive = open_archive(path);
  if (!archive) return archive.error();
  try {
    check_format(*archive);
    const std::string chosen = choose_model(*archive, name);
    const std::string file = "models/" + chosen + ".json";
    auto model = read_exported_json(text_of(*member(*archive, file)), path + ": " + file);
    if (!model) return model;
    model->program.name = chosen;
    model->file = archive->mapping;
    set_weights(*archive, chosen, *model);
    return model;
  } catch (const std::exception& failed) {
    return invalid_argument(path + ": " + failed.what());
  }
}

}  // namespace kiln::graph
