// Which file the dynamic linker would take cannot be asked without having it executed. So it is looked for here: where
// the program and its environment say, then in the linker's cache, then where libraries usually are.
#include "kiln/wire/library.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <vector>

#include "kiln/wire/trusted.h"

namespace kiln::wire {
namespace {

constexpr const char* kCache = "/etc/ld.so.cache";
constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";

// As the C library writes it.
struct CacheHeader {
  char magic[20];
  uint32_t count, string_bytes;
  uint8_t flags, padding[3];
  uint32_t extension, unused[3];
};
struct CacheEntry {
  int32_t flags;
  uint32_t name, path;  // from the header on
  uint32_t system;
  uint64_t capabilities;
};

std::string text_at(std::string_view cache, size_t at) {
  if (at >= cache.size()) return "";
  const std::string_view rest = cache.substr(at);
  return std::string(rest.substr(0, rest.find('\0')));
}

std::vector<std::string> find_in_cache(const std::string& name) {
  std::ifstream file(kCache, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  const size_t begin = whole.find(kMagic);
  if (begin == std::string::npos || whole.size() - begin < sizeof(CacheHeader)) return {};
  const std::string_view cache = std::string_view(whole).substr(begin);
  CacheHeader header{};
  std::memcpy(&header, cache.data(), sizeof header);
  std::vector<std::string> out;
  for (size_t i = 0, at = sizeof header; i < header.count && at + sizeof(CacheEntry) <= cache.size(); ++i) {
    CacheEntry entry{};
    std::memcpy(&entry, cache.data() + at, sizeof entry);
    at += sizeof entry;
    if (text_at(cache, entry.name) == name) out.push_back(text_at(cache, entry.path));
  }
  return out;
}

// Where the linker looks: what program and environment say, and where libraries usually are.
struct Directories {
  std::vector<std::string> said, usual;
};

Directories search_path() {
  Directories out;
  void* self = ::dlopen(nullptr, RTLD_LAZY);
  Dl_serinfo size{};
  if (!self || ::dlinfo(self, RTLD_DI_SERINFOSIZE, &size) != 0) return out;
  std::vector<std::byte> space(size.dls_size);
  auto* info = reinterpret_cast<Dl_serinfo*>(space.data());
  info->dls_size = size.dls_size;
  info->dls_cnt = size.dls_cnt;
  if (::dlinfo(self, RTLD_DI_SERINFO, info) != 0) return out;
  for (unsigned i = 0; i < info->dls_cnt; ++i) {
    const bool usual = (info->dls_serpath[i].dls_flags & LA_SER_DEFAULT) != 0;
    (usual ? out.usual : out.said).emplace_back(info->dls_serpath[i].dls_name);
  }
  return out;
}

std::vector<std::string> files_of(const std::string& library) {
  if (library.find('/') != std::string::npos) return {library};
  std::vector<std::string> out;
  const Directories directories = search_path();
  for (const std::string& each : directories.said) out.push_back(each + "/" + library);
  for (std::string& each : find_in_cache(library)) out.push_back(std::move(each));
  for (const std::string& each : directories.usual) out.push_back(each + "/" + library);
  std::erase_if(out, [](const std::string& path) { return ::access(path.c_str(), F_OK) != 0; });
  return out;
}

Result<void*> open_file(const std::string& path) {
  if (auto trusted = check_trusted(path); !trusted) return trusted.error();
  if (void* opened = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) return opened;
  const char* why = ::dlerror();
  return error(ErrorCode::kUnavailable, why ? why : path + ": unknown reason");
}

}  // namespace

Result<void*> open_trusted_library(const std::string& library) {
  if (void* present = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | RTLD_NOLOAD)) return present;
  Error failure = error(ErrorCode::kUnavailable, library + ": no such library");
  for (const std::string& path : files_of(library)) {
    auto opened = open_file(path);
    if (opened) return opened;
    failure = opened.error();
  }
  return failure;
}

}  // namespace kiln::wire
