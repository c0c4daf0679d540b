#include "text/prompt_writer.h"

namespace yeoul {

void PromptWriter::markup(std::string_view text) {
  while (!text.empty()) {
    size_t first = text.size();
    std::string_view found;
    for (const std::string_view spelling : {kDsmlMarker, kThinkMarker, kThinkEndMarker}) {
      const size_t at = text.find(spelling);
      if (at >= first) continue;
      first = at;
      found = spelling;
    }
    this->text(text.substr(0, first));
    if (!found.empty()) marker(found);
    text.remove_prefix(first + found.size());
  }
}

}  // namespace yeoul
