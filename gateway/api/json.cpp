#include "gateway/api/json.hpp"

#include <set>
#include <vector>

namespace ebb::api {
namespace {

/// Builds nothing: looks for what must not come before the document is built.
class Inspector : public nlohmann::json_sax<Json> {
 public:
  std::string fault;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    keys_.emplace_back();
    return enter();
  }
  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) return true;
    fault = "key " + shown(name) + " comes twice";
    return false;
  }
  bool end_object() override {
    keys_.pop_back();
    return leave();
  }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    fault = "not valid JSON at byte " + std::to_string(position);
    return false;
  }

 private:
  bool enter() {
    if (++depth_ <= kJsonDepthMax) return true;
    fault = "nested deeper than " + std::to_string(kJsonDepthMax);
    return false;
  }
  bool leave() {
    --depth_;
    return true;
  }
  int depth_ = 0;
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

Result<Json> parse_json(std::string_view text) {
  Inspector inspector;
  if (!Json::sax_parse(text, &inspector)) {
    return Refusal{"InvalidJson", "the body is refused: " + inspector.fault, 400};
  }
  Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded()) return Refusal{"InvalidJson", "the body is not valid JSON", 400};
  return document;
}

std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > 64) text = text.substr(0, 61) + "...";
  return text;
}

std::string plain_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == 0x1b) {
      if (i + 1 >= text.size()) break;
      const char kind = text[++i];
      if (kind == '[') {  // CSI: up to its final byte
        while (i + 1 < text.size() && (text[i + 1] < 0x40 || text[i + 1] > 0x7e)) ++i;
        ++i;
      } else if (kind == ']' || kind == 'P' || kind == 'X' || kind == '^' || kind == '_') {
        while (i + 1 < text.size() && text[i + 1] != 0x07 && text[i + 1] != 0x1b) ++i;
        if (i + 1 < text.size() && text[i + 1] == 0x07) ++i;
        if (i + 2 < text.size() && text[i + 1] == 0x1b && text[i + 2] == '\\') i += 2;
      }
      continue;
    }
    if (c < 0x20 || c == 0x7f) {
      out.push_back(c == '\t' ? ' ' : '?');
      continue;
    }
    if (c < 0x80) {
      out.push_back(text[i]);
      continue;
    }
    const int more = c >= 0xf0 && c < 0xf5 ? 3 : c >= 0xe0 ? 2 : c >= 0xc2 ? 1 : 0;
    bool whole = more > 0 && c < 0xf5 && i + static_cast<std::size_t>(more) < text.size();
    for (int k = 1; whole && k <= more; ++k) {
      whole = (static_cast<unsigned char>(text[i + static_cast<std::size_t>(k)]) & 0xc0) == 0x80;
    }
    // U+0080 to U+009F are control characters too (0xc2 0x80 to 0xc2 0x9f).
    if (whole && c == 0xc2 && static_cast<unsigned char>(text[i + 1]) < 0xa0) whole = false;
    if (!whole) {
      out.push_back('?');
      continue;
    }
    out.append(text.substr(i, static_cast<std::size_t>(more) + 1));
    i += static_cast<std::size_t>(more);
  }
  return out;
}

}  // namespace ebb::api
