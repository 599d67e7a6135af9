// A key that is not in the catalog does not compile.

import type catalog from "./locales/en.json";

declare module "i18next" {
  interface CustomTypeOptions {
    defaultNS: "translation";
    resources: { translation: typeof catalog };
  }
}
