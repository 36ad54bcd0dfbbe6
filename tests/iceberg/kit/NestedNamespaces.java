import org.apache.iceberg.rest.RESTCompatibilityKitCatalogTests;

/** Cases of the kit about nested namespaces, which it has no flag for: the switch is a method of its cases. */
public class NestedNamespaces extends RESTCompatibilityKitCatalogTests {
  @Override
  protected boolean supportsNestedNamespaces() {
    return true;
  }
}
